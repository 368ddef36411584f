"""Manifests as they are read from the bytes of their messages."""

from __future__ import annotations

from pilum.format.pb import table_pb2
from pilum.table.model.fragment_survey import FragmentSurvey
from pilum.table.model.fragments import Fragments
from pilum.table.model.manifest import Manifest
from pilum.table.model.stored_fragments import StoredFragments

__all__ = ["read_manifest", "stored_fragments", "with_fragments"]


def read_manifest(message: table_pb2.Manifest, where: str = "") -> Manifest:
    """Returns the manifest that a file with this message has."""
    survey = FragmentSurvey.of(message.SerializeToString())
    head = table_pb2.Manifest.FromString(survey.head)
    return Manifest.from_proto(head, StoredFragments(survey, where))


def stored_fragments(message: table_pb2.Manifest, where: str = "") -> StoredFragments:
    """Returns the fragments in the message of a manifest."""
    return StoredFragments(FragmentSurvey.of(message.SerializeToString()), where)


def with_fragments(fragments: Fragments) -> table_pb2.Manifest:
    """Returns a message with nothing but fragments."""
    found = table_pb2.Manifest()
    found.ParseFromString(fragments.encoded())
    return found
