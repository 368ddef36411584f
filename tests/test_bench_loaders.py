"""The bench of loaders reads every row with every library that is installed."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed")

from bench.loaders import lines, measure


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the peers
def test_a_tiny_run_has_a_line_for_each_order() -> None:
    found = measure(1000, 4, 1)
    text = "\n".join(lines(found, 1000))
    orders = [epoch.order for epoch in found if epoch.library == "pilum"]
    assert len(orders) == len(set(orders)) == 5
    assert all(f"| {order} | pilum |" in text for order in orders)
    assert {epoch.order for epoch in found} == set(orders)
