"""What every benchmark does around its measurements: options, one clean revision, the results file, the table.

A whole run writes bench/results/NAME.json. Everything less (a short run, a smoke, some parts, one side) writes elsewhere
unless it is told where. `--again --only PART …` measures these parts again, whole and on all sides, into the results that
are there: each part carries the revision, date and machine it was measured on, and what it replaces is kept.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Protocol

from bench.criteria import BMQ, KAFKA, Criterion, Evidence
from bench.findings import Findings, say
from bench.measure import machine_facts
from bench.revision import DIRTY_SUFFIX, UNKNOWN, NotOneRevision, Revision, read_revision
from bench.table import table
from bench.time_limit import seconds_since
from testing.processes import REPOSITORY

FORMAT: Final = 2
RESULTS: Final = REPOSITORY / "bench" / "results"
ROUGH_RESULTS: Final = REPOSITORY / ".cache" / "bench-rough"
"""Of runs that are not the whole: they do not take the place of one that is."""


def show_rough(name: str, result: Mapping[str, Any]) -> None:
    """Print a result as JSON, and write it among the rough ones."""
    text = json.dumps(result, indent=1)
    ROUGH_RESULTS.mkdir(parents=True, exist_ok=True)
    (ROUGH_RESULTS / f"{name}.json").write_text(text)
    print(text)


FULL: Final = "full"
QUICK: Final = "quick"
SMOKE: Final = "smoke"


class Plan(Protocol):
    """A dataclass: which parts are run, on which sides, and how much of each."""

    @property
    def parts(self) -> tuple[str, ...]: ...
    @property
    def sides(self) -> tuple[str, ...]: ...


@dataclass(frozen=True, slots=True)
class Setting:
    """Something that is set otherwise than by its owner's default, or that both sides get.

    `measured`: the part in which the default is measured, or why it cannot be.
    """

    of: str
    what: str
    value: str
    default: str
    measured: str


@dataclass(frozen=True, slots=True)
class Bench:
    """One benchmark. `plan_of` takes the parts, the sides and FULL, QUICK or SMOKE; `measure` performs the plan and puts
    what it finds, failures too, into the findings; it raises nothing but KeyboardInterrupt.
    """

    name: str
    doc: str
    parts: tuple[str, ...]
    names: Mapping[str, str]
    plan_of: Callable[[tuple[str, ...], tuple[str, ...], str], Plan]
    measure: Callable[[Any, Findings], dict[str, float]]
    evaluate: Callable[[Evidence], list[Criterion]]
    definitions: Mapping[str, int]
    settings: Sequence[Setting]
    versions: Callable[[], dict[str, str]]
    data: Path
    sides: tuple[str, ...] = (BMQ, KAFKA)
    results_directory: Path = RESULTS
    rough_directory: Path = ROUGH_RESULTS

    @property
    def results(self) -> Path:
        """Of whole runs."""
        return self.results_directory / f"{self.name}.json"

    @property
    def rough_results(self) -> Path:
        """Of all others, unless they are told where."""
        return self.rough_directory / f"{self.name}.json"

    def judge(self, result: Mapping[str, Any]) -> dict[str, list[Criterion]]:
        """`criteria` and, without bounds, `reported`, from the samples of a results file alone."""
        found = self.evaluate(Evidence(result["parts"], result["failures"], result["measured"], self.definitions))
        return {
            "criteria": [one for one in found if "holds" in one],
            "reported": [one for one in found if "holds" not in one],
        }


class PlanModule(Protocol):
    """A benchmark's plan.py."""

    @property
    def PARTS(self) -> tuple[str, ...]: ...  # noqa: N802 the module's name
    @property
    def plan_of(self) -> Callable[[tuple[str, ...], tuple[str, ...], str], Plan]: ...


class CriteriaModule(Protocol):
    """A benchmark's criteria.py."""

    @property
    def PART_OF(self) -> Mapping[str, str]: ...  # noqa: N802 the module's name
    @property
    def judge(self) -> Callable[[Evidence], list[Criterion]]: ...


class TuningModule(Protocol):
    """A benchmark's tuning.py."""

    @property
    def SETTINGS(self) -> Sequence[Setting]: ...  # noqa: N802 the module's name


def bench_of(
    name: str,
    doc: str,
    modules: tuple[PlanModule, CriteriaModule, TuningModule],
    measure: Callable[[Any, Findings], dict[str, float]],
    versions: Callable[[], dict[str, str]],
    data: Path,
) -> Bench:
    """A benchmark whose parts have their first definitions, of bmq beside Apache Kafka."""
    plan, criteria, tuning = modules
    return Bench(
        name=name,
        doc=doc,
        parts=plan.PARTS,
        names=criteria.PART_OF,
        plan_of=plan.plan_of,
        measure=measure,
        evaluate=criteria.judge,
        definitions={},
        settings=tuning.SETTINGS,
        versions=versions,
        data=data,
    )


class Refused(Exception):
    """The run was not begun; the message says why."""


@dataclass(frozen=True, slots=True)
class Order:
    """What was asked for on the command line."""

    only: tuple[str, ...] = ()
    sides: tuple[str, ...] = ()
    size: str = FULL
    is_again: bool = False
    results: Path | None = None

    @property
    def is_whole(self) -> bool:
        return not (self.only or self.sides or self.size != FULL)

    def check(self) -> None:
        """Raises Refused."""
        if self.is_again and (self.sides or self.size != FULL or not self.only):
            raise Refused("--again measures the parts that --only names, whole and on all sides")

    def target(self, bench: Bench) -> Path:
        """The file the results go to."""
        return self.results or (bench.results if self.is_whole or self.is_again else bench.rough_results)


def parts_of(bench: Bench, names: Sequence[str]) -> tuple[str, ...]:
    """The parts that are named, or that a criterion named here is judged by, in their order; all without a name.

    Raises Refused for a name that is neither.
    """
    wanted = set()
    for name in names:
        if name not in bench.parts and name not in bench.names:
            raise Refused(f"{name!r} is neither a part nor a criterion; parts are: {', '.join(bench.parts)}")
        wanted.add(name if name in bench.parts else bench.names[name])
    return tuple(part for part in bench.parts if part in wanted or not wanted)


def read_earlier(results: Path) -> dict[str, Any]:
    """Results that parts can be measured again into. Raises Refused."""
    if not results.exists():
        raise Refused(f"--again needs results of a whole run, and there is no {results}")
    earlier: dict[str, Any] = json.loads(results.read_text())
    if earlier.get("format") != FORMAT or earlier["size"] != FULL or earlier.get("interrupted"):
        raise Refused(f"{results} is not of a whole run in today's form: run the whole")
    return earlier


def run(bench: Bench, order: Order, revision_now: Callable[[], Revision]) -> int:
    """The exit code: 0 says that it ran, not that anything holds. A smoke that failed anywhere ends with 1.

    Raises Refused, NotOneRevision: nothing was begun.
    """
    order.check()
    parts = parts_of(bench, order.only)
    results = order.target(bench)
    revision = revision_of(revision_now, is_committed=results == bench.results)
    earlier = read_earlier(results) if order.is_again else {}

    began = time.monotonic()
    date = datetime.now(UTC).isoformat(timespec="seconds")
    bench.data.mkdir(parents=True, exist_ok=True)
    plan = bench.plan_of(parts, order.sides or bench.sides, order.size)
    machine = machine_facts(bench.data)
    findings = Findings.of(earlier) if earlier else Findings()
    findings.supersede(plan.parts)
    for part in plan.parts:
        findings.measured[part] = origin_of(part, date, revision, machine, bench, order.sides)
    result = header_of(bench, order, plan, date, revision, machine)
    try:
        result["part_s"] = bench.measure(plan, findings)
    except KeyboardInterrupt:
        result["interrupted"] = True
    result["duration_s"] = seconds_since(began)
    changed = change_of(revision, revision_now)
    if changed:
        result["revision"] = f"{revision}{DIRTY_SUFFIX}"
        for part in plan.parts:
            findings.measured[part]["revision"] = result["revision"]
    trouble = "interrupted: what was measured until then is in a file of its own" if "interrupted" in result else ""
    if results == bench.results and (trouble or changed):
        trouble = trouble or changed
        results = bench.rough_results  # what was there stays there
    if earlier:
        result = {**earlier, "again": [*earlier.get("again", ()), {"parts": plan.parts, **result}]}
    result.update(asdict(findings))
    result.update(bench.judge(result))
    write(results, result)
    print(table(result))
    print(f"\n{results} written after {seconds_since(began):.0f} s")
    if trouble:
        print(f"bench.{bench.name}: {trouble}", file=sys.stderr)
        return 1
    return int(order.size == SMOKE and bool(findings.failures))


def header_of(
    bench: Bench, order: Order, plan: Plan, date: str, revision: Revision, machine: Mapping[str, Any]
) -> dict[str, Any]:
    """What a results file says of the run itself."""
    return {
        "format": FORMAT,
        "bench": bench.name,
        "size": order.size,
        "date": date,
        "revision": str(revision),
        "machine": dict(machine),
        "versions": bench.versions(),
        "plan": asdict(plan),  # type: ignore[call-overload]
        "settings": [asdict(setting) for setting in bench.settings],
    }


def revision_of(revision_now: Callable[[], Revision], *, is_committed: bool) -> Revision:
    """Raises NotOneRevision when the results are to be committed and the tree is not one clean revision."""
    try:
        revision = revision_now()
    except NotOneRevision:
        if is_committed:
            raise
        return UNKNOWN
    if is_committed:
        revision.check_clean()
    return revision


def origin_of(
    part: str, date: str, revision: Revision, machine: Mapping[str, Any], bench: Bench, sides: tuple[str, ...]
) -> dict[str, Any]:
    """What a part's samples carry with them. `sides`: when not all were asked for."""
    return {
        "date": date,
        "revision": str(revision),
        "machine": dict(machine),
        "definition": bench.definitions.get(part, 1),
        **({"sides": list(sides)} if sides else {}),
    }


def change_of(revision: Revision, revision_now: Callable[[], Revision]) -> str:
    """How the tree differs from that of the run's beginning; empty when it does not, or was not clean then either."""
    if revision.changes:
        return ""
    try:
        revision.check_same(revision_now())
    except NotOneRevision as error:
        return str(error)
    return ""


def write(results: Path, result: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    results.parent.mkdir(parents=True, exist_ok=True)
    beside = results.with_suffix(".new")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    beside.replace(results)


def order_of(bench: Bench, arguments: Sequence[str] | None = None) -> Order:
    options = argparse.ArgumentParser(
        prog=f"python -m bench.{bench.name}",
        description=bench.doc,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=__doc__,
    )
    size = options.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="size", action="store_const", const=QUICK, help="small sizes: a rough look")
    size.add_argument(
        "--smoke", dest="size", action="store_const", const=SMOKE, help="a minute: whether it runs at all"
    )
    options.add_argument("--only", nargs="+", default=[], metavar="NAME", help=f"of: {', '.join(bench.parts)}")
    if len(bench.sides) > 1:
        options.add_argument("--side", choices=bench.sides, help="one of them alone: figures, and no criterion")
    options.add_argument(
        "--again", action="store_true", help="measure these parts again, into the results that are there"
    )
    options.add_argument("--results", type=Path)
    given = options.parse_args(arguments)
    side = getattr(given, "side", None)
    return Order(tuple(given.only), (side,) if side else (), given.size or FULL, given.again, given.results)


def main(bench: Bench) -> None:
    # Whoever ends it, what was measured until then is written.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        code = run(bench, order_of(bench), lambda: read_revision(REPOSITORY))
    except (Refused, NotOneRevision) as error:
        print(f"bench.{bench.name}: {error}", file=sys.stderr)
        code = 2
    say(f"bench.{bench.name} ended with {code}")
    sys.exit(code)
