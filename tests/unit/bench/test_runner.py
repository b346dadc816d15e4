"""Where results go, what is refused, and what a part that is measured again leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bench.criteria import BMQ, KAFKA, Absolute, evaluate
from bench.findings import Findings
from bench.revision import NotOneRevision, Revision
from bench.runner import FULL, QUICK, SMOKE, Bench, Order, Refused, Setting, order_of, parts_of, run

pytestmark = pytest.mark.campaign("unit")

CLEAN = Revision("abc")
DIRTY = Revision("abc", ("bmq/log/index.py",))
ABSOLUTES = tuple(Absolute(f"{part}_s", part, part, "s", 1, lambda raw: raw["s"]) for part in ("kill", "move"))


@dataclass(frozen=True)
class SmallPlan:
    parts: tuple[str, ...]
    sides: tuple[str, ...]
    size: str


def finding(seconds: float) -> Callable[[Any, Findings], dict[str, float]]:
    def measure(plan: Any, findings: Findings) -> dict[str, float]:
        for part in plan.parts:
            for side in plan.sides:
                findings.samples(part, side)["s"] = seconds
        return dict.fromkeys(plan.parts, 0.1)

    return measure


def interrupted(_: Any, findings: Findings) -> dict[str, float]:
    findings.samples("kill", BMQ)["s"] = 0.2
    raise KeyboardInterrupt


def failing(plan: Any, findings: Findings) -> dict[str, float]:
    with findings.attempt(["move"], KAFKA):
        raise OSError("no Java")
    return finding(0.3)(plan, findings)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(
        name="small",
        doc="small",
        parts=("kill", "move"),
        names={one.id: one.part for one in ABSOLUTES},
        plan_of=SmallPlan,
        measure=finding(0.5),
        evaluate=lambda evidence: evaluate(evidence, (), ABSOLUTES),
        definitions={"move": 3},
        settings=(Setting("bmq", "heap", "1", "2", "nothing"),),
        versions=lambda: {"python": "3"},
        data=tmp_path / "data",
        results_directory=tmp_path / "results",
        rough_directory=tmp_path / "rough",
    )


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_whole_run_is_of_one_clean_revision(bench: Bench) -> None:
    assert run(bench, Order(), lambda: CLEAN) == 0
    result = read(bench.results)
    assert (result["revision"], result["size"], result["format"]) == ("abc", FULL, 2)
    assert {one["id"]: one["holds"] for one in result["criteria"]} == {"kill_s": True, "move_s": True}
    assert {part: (one["revision"], one["definition"]) for part, one in result["measured"].items()} == {
        "kill": ("abc", 1),
        "move": ("abc", 3),
    }
    assert result["settings"][0]["default"] == "2"
    assert not bench.rough_results.exists()


@pytest.mark.parametrize("order", [Order(), Order(only=("kill",), is_again=True)])
def test_a_dirty_tree_is_refused_before_anything_runs(bench: Bench, order: Order) -> None:
    def nothing(*_: Any) -> dict[str, float]:
        raise AssertionError("it ran")

    with pytest.raises(NotOneRevision, match=r"index\.py"):
        run(replace(bench, measure=nothing), order, lambda: DIRTY)
    assert not bench.results.exists()


def test_a_tree_without_a_revision_may_be_looked_at_as_well(bench: Bench) -> None:
    def unknown() -> Revision:
        raise NotOneRevision("there is no git")

    assert run(bench, Order(size=SMOKE), unknown) == 0
    assert read(bench.rough_results)["revision"] == "unknown-dirty"
    with pytest.raises(NotOneRevision, match="there is no git"):
        run(bench, Order(), unknown)


def test_a_dirty_tree_may_be_looked_at_and_nothing_holds(bench: Bench, tmp_path: Path) -> None:
    elsewhere = tmp_path / "mine.json"
    assert run(bench, Order(results=elsewhere), lambda: DIRTY) == 0
    assert read(elsewhere)["revision"] == "abc-dirty"
    assert [one["holds"] for one in read(elsewhere)["criteria"]] == [False, False]


@pytest.mark.parametrize("order", [Order(size=QUICK), Order(size=SMOKE), Order(only=("kill",)), Order(sides=(BMQ,))])
def test_less_than_the_whole_takes_no_place_of_it(bench: Bench, order: Order) -> None:
    assert run(bench, order, lambda: CLEAN) == 0
    assert bench.rough_results.exists()
    assert not bench.results.exists()


def test_one_side_alone_has_figures_and_no_criterion(bench: Bench) -> None:
    run(bench, Order(sides=(KAFKA,)), lambda: CLEAN)
    assert [one["holds"] for one in read(bench.rough_results)["criteria"]] == [False, False]


def test_a_revision_that_changes_under_a_run_is_not_one(bench: Bench) -> None:
    revisions = iter([CLEAN, Revision("abd")])
    assert run(bench, Order(), lambda: next(revisions)) == 1
    assert not bench.results.exists()
    assert bench.rough_results.exists()


def test_a_smoke_goes_on_whoever_changes_the_tree_meanwhile(bench: Bench) -> None:
    revisions = iter([CLEAN, DIRTY])
    assert run(bench, Order(size=SMOKE), lambda: next(revisions)) == 0
    result = read(bench.rough_results)
    assert {result["revision"], *(one["revision"] for one in result["measured"].values())} == {"abc-dirty"}
    assert [one["holds"] for one in result["criteria"]] == [False, False]


def test_what_was_interrupted_stands_elsewhere(bench: Bench) -> None:
    assert run(replace(bench, measure=interrupted), Order(), lambda: CLEAN) == 1
    assert not bench.results.exists()
    result = read(bench.rough_results)
    assert result["interrupted"]
    assert result["parts"] == {"kill": {"bmq": {"s": 0.2}}}
    assert [one["holds"] for one in result["criteria"]] == [False, False]


def test_a_part_measured_again_says_when_and_of_what_and_keeps_the_former(bench: Bench) -> None:
    run(bench, Order(), lambda: CLEAN)
    first = read(bench.results)
    again = replace(bench, measure=finding(0.9))
    assert run(again, Order(only=("move_s",), is_again=True), lambda: Revision("abd")) == 0
    result = read(bench.results)
    assert result["parts"] == {
        "kill": {"bmq": {"s": 0.5}, "kafka": {"s": 0.5}},
        "move": {"bmq": {"s": 0.9}, "kafka": {"s": 0.9}},
    }
    assert result["measured"]["kill"] == first["measured"]["kill"]
    assert result["measured"]["move"]["revision"] == "abd"
    assert {"date", "machine"} <= set(result["measured"]["move"])
    assert result["superseded"] == [
        {"part": "move", "samples": first["parts"]["move"], "measured": first["measured"]["move"]}
    ]
    assert (result["revision"], result["date"]) == ("abc", first["date"])
    assert [(one["parts"], one["revision"]) for one in result["again"]] == [(["move"], "abd")]
    assert {one["id"]: one["value"] for one in result["criteria"]} == {"kill_s": 0.5, "move_s": 0.9}


def test_a_side_that_fails_again_takes_the_criterion_that_held(bench: Bench) -> None:
    run(bench, Order(), lambda: CLEAN)
    run(replace(bench, measure=failing), Order(only=("move",), is_again=True), lambda: CLEAN)
    found = {one["id"]: one for one in read(bench.results)["criteria"]}
    assert found["kill_s"]["holds"]
    assert not found["move_s"]["holds"]
    assert "no Java" in found["move_s"]["reason"]


@pytest.mark.parametrize(
    "order",
    [
        Order(is_again=True),
        Order(only=("move",), is_again=True, sides=(KAFKA,)),
        Order(only=("move",), is_again=True, size=QUICK),
    ],
)
def test_again_is_of_whole_parts(bench: Bench, order: Order) -> None:
    with pytest.raises(Refused, match="whole and on all sides"):
        run(bench, order, lambda: CLEAN)


def test_again_needs_results_of_a_whole_run(bench: Bench, tmp_path: Path) -> None:
    order = Order(only=("move",), is_again=True)
    with pytest.raises(Refused, match="there is no"):
        run(bench, order, lambda: CLEAN)
    rough = tmp_path / "rough.json"
    run(bench, Order(size=SMOKE, results=rough), lambda: CLEAN)
    with pytest.raises(Refused, match="not of a whole run"):
        run(bench, replace(order, results=rough), lambda: CLEAN)


def test_a_smoke_that_failed_anywhere_says_so_and_has_every_criterion(bench: Bench, tmp_path: Path) -> None:
    results = tmp_path / "smoke.json"
    assert run(replace(bench, measure=failing), Order(size=SMOKE, results=results), lambda: CLEAN) == 1
    assert [one["id"] for one in read(results)["criteria"]] == ["kill_s", "move_s"]
    assert run(replace(bench, measure=failing), Order(size=QUICK, results=results), lambda: CLEAN) == 0


def test_parts_are_named_by_themselves_or_by_a_criterion(bench: Bench) -> None:
    assert parts_of(bench, ()) == ("kill", "move")
    assert parts_of(bench, ("move_s", "kill")) == ("kill", "move")
    with pytest.raises(Refused, match=r"'moves' is neither.*parts are: kill, move"):
        parts_of(bench, ("moves",))


def test_the_command_line_says_it_all(bench: Bench) -> None:
    assert order_of(bench, []) == Order()
    assert order_of(bench, ["--smoke", "--results", "f"]) == Order(size=SMOKE, results=Path("f"))
    assert order_of(bench, ["--again", "--only", "kill", "move"]) == Order(("kill", "move"), is_again=True)
    assert order_of(bench, ["--side", "kafka", "--quick"]) == Order(sides=("kafka",), size=QUICK)
