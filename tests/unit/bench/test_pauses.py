"""What bench.micro_pauses makes of its samples."""

from __future__ import annotations

import pytest

from bench.micro_pauses import CLIENT, Pause, Schedule, cause_of, pauses_of

pytestmark = pytest.mark.campaign("unit")


def test_waits_of_one_node_that_overlap_are_one_pause() -> None:
    waits = [("node 2", 1.0, 1.1), ("node 1", 1.05, 1.2), ("node 1", 1.0, 1.1), ("node 1", 3.0, 3.1)]
    assert pauses_of(waits) == [Pause("node 1", 1.0, 1.2), Pause("node 2", 1.0, 1.1), Pause("node 1", 3.0, 3.1)]


def schedule(running_s: float, waiting_s: float) -> Schedule:
    """Of samples at 0, 1 and 2 s: all of it in the second second."""
    return Schedule([0.0, 1.0, 2.0], [0.0, 0.0, running_s], [0.0, 0.0, waiting_s])


@pytest.mark.parametrize(
    ("node", "client", "cause"),
    [
        ((0.0, 0.6), (0.0, 0.0), "the node waited for a processor"),
        ((0.6, 0.0), (0.0, 0.6), "the node computed"),
        ((0.3, 0.3), (0.0, 0.0), "the node computed and waited for a processor"),
        ((0.1, 0.1), (0.0, 0.6), "the client waited for a processor"),
        ((0.1, 0.1), (0.1, 0.1), "the store"),
    ],
)
def test_the_cause_is_who_took_half_of_it(node: tuple[float, float], client: tuple[float, float], cause: str) -> None:
    schedules = {"node 1": schedule(*node), "node 2": schedule(1.0, 0.0), CLIENT: schedule(*client)}
    assert cause_of(Pause("node 1", 1.0, 2.0), schedules) == cause
    assert cause_of(Pause("node 1", 0.1, 0.9), schedules) == "the store"
