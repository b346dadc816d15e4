"""A round of faults is kept whatever becomes of it, and one that does not end is a lower bound, not the end of the part."""

from __future__ import annotations

from typing import Any, Self, cast

import pytest

from bench.cluster import faults
from bench.cluster.sides import Side
from bench.cluster.steady import LoadStuck, SteadyLoad

pytestmark = pytest.mark.campaign("unit")


class Seen:
    def gaps(self, begin: float, end: float) -> dict[str, float]:
        return {"gap_s": 1.0}


class FakeLoad:
    """`stuck`: which of the waits end with LoadStuck, by their number."""

    def __init__(self, *stuck: int) -> None:
        self.seen = Seen()
        self.failed: list[str] = []
        self._stuck = stuck
        self._waits = 0

    def wait_until_flowing(self, since: float | None = None, timeout_s: float = 0) -> float:
        self._waits += 1
        if self._waits in self._stuck:
            raise LoadStuck("nothing came back")
        return 0.25

    def finish(self) -> None: ...
    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


class FakeNode:
    def __init__(self) -> None:
        self.orders: list[str] = []


class FakeSide:
    def __init__(self) -> None:
        self.nodes = {1: FakeNode()}

    def wait_whole(self) -> None: ...


def two_rounds(load: FakeLoad) -> tuple[list[dict[str, Any]], FakeSide]:
    side, found = FakeSide(), list[dict[str, Any]]()
    faults.rounds(
        cast(Side, side),
        2,
        lambda _, __: (1, 4),
        lambda node: cast(FakeNode, node).orders.append("hurt"),
        lambda node: cast(FakeNode, node).orders.append("heal"),
        found.append,
        load=cast(SteadyLoad, load),
        sleep=lambda _: None,
    )
    return found, side


# Three waits a round: before the fault, for the end of its gap, and after healing.
def test_every_round_has_its_gap_and_that_of_the_way_back() -> None:
    found, side = two_rounds(FakeLoad())
    whole = {"victim": 1, "partitions": 4, "calm_gap_s": 1.0, "back_s": 0.25, "gap_s": 1.0, "heal_gap_s": 1.0}
    assert found == [whole, whole]
    assert side.nodes[1].orders == ["hurt", "heal", "hurt", "heal"]


def test_a_round_that_does_not_end_is_healed_and_followed_by_the_next() -> None:
    found, side = two_rounds(FakeLoad(2))
    assert [one["back_s"] for one in found] == [None, 0.25]
    assert side.nodes[1].orders == ["hurt", "heal", "hurt", "heal"]


def test_what_does_not_come_back_when_healed_ends_the_part_and_keeps_the_round() -> None:
    found: list[dict[str, Any]] = []
    side = FakeSide()
    with pytest.raises(LoadStuck):
        faults.rounds(
            cast(Side, side),
            2,
            lambda _, __: (1, 4),
            lambda _: None,
            lambda _: None,
            found.append,
            load=cast(SteadyLoad, FakeLoad(3)),
            sleep=lambda _: None,
        )
    assert [(one["gap_s"], "heal_gap_s" in one) for one in found] == [(1.0, False)]
