"""One adapter per library; `PEERS` is in the order of the columns of the report."""

from __future__ import annotations

from bench.peers.base import LANCE_VERSIONS, Peer
from bench.peers.ours import Pilum
from bench.peers.parquet import Parquet
from bench.peers.pylance import Pylance
from bench.peers.vortex import Vortex

__all__ = ["LANCE_VERSIONS", "PEERS", "Peer"]

PEERS: dict[str, type[Peer]] = {peer.name: peer for peer in (Pilum, Pylance, Parquet, Vortex)}
