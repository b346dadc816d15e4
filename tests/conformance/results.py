"""What a run found: by API and version, as JSON and as docs/CONFORMANCE.md. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.conformance.clients import matrix
from tests.conformance.compare import Difference
from tests.conformance.intended import INTENDED, Intended, reason_for
from tests.conformance.schemas import api_name

FORMAT: Final = 1
KAFKA: Final = "4.3.0"
EQUAL, INTENDED_ONLY, DIFFERENT, BMQ_ONLY, KAFKA_ONLY = "equal", "intended", "different", "bmq only", "kafka only"


NO_CLIENTS: Final = matrix.as_json([], [])


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case in one version, sent to both."""

    api_key: int
    version: int
    case: str
    differences: Sequence[Difference] = ()


@dataclass(slots=True)
class Ranges:
    """What each side serves of an API; None: nothing."""

    bmq: range | None
    kafka: range | None


@dataclass(slots=True)
class _Cell:
    cases: int = 0
    intended: set[str] = field(default_factory=set)
    different: int = 0


def as_json(
    outcomes: Iterable[Outcome],
    served: Mapping[int, Ranges],
    entries: Sequence[Intended] = INTENDED,
    clients: Any = NO_CLIENTS,
) -> Any:
    """JSON-ready and the same for the same answers: nothing of the run itself is in it. `clients`: of matrix.as_json."""
    cells: dict[tuple[int, int], _Cell] = {}
    unexpected = []
    used: set[str] = set()
    for outcome in outcomes:
        cell = cells.setdefault((outcome.api_key, outcome.version), _Cell())
        cell.cases += 1
        missed = []
        for difference in outcome.differences:
            entry = reason_for(outcome.api_key, outcome.case, difference, entries)
            if entry is None:
                missed.append({"path": difference.path, "bmq": difference.bmq, "kafka": difference.kafka})
            else:
                cell.intended.add(entry.name)
                used.add(entry.name)
        if missed:
            cell.different += 1
            name = api_name(outcome.api_key)
            unexpected.append({"api": name, "version": outcome.version, "case": outcome.case, "differences": missed})
    return {
        "format": FORMAT,
        "kafka": KAFKA,
        "apis": [_api(key, ranges, cells) for key, ranges in sorted(served.items())],
        "intended": [{"name": one.name, "reason": one.reason} for one in entries if one.name in used],
        "unmet": [one.name for one in entries if one.name not in used],
        "differences": unexpected,
        "clients": clients,
    }


def _api(key: int, ranges: Ranges, cells: Mapping[tuple[int, int], _Cell]) -> Any:
    versions: dict[str, Any] = {}
    for version in sorted({*(ranges.bmq or ()), *(ranges.kafka or ())}):
        cell = cells.get((key, version))
        if version not in (ranges.kafka or ()):
            versions[str(version)] = {"state": BMQ_ONLY}
        elif version not in (ranges.bmq or ()):
            versions[str(version)] = {"state": KAFKA_ONLY}
        elif cell is not None:
            state = DIFFERENT if cell.different else INTENDED_ONLY if cell.intended else EQUAL
            versions[str(version)] = {"state": state, "cases": cell.cases, "intended": sorted(cell.intended)}
    return {"key": key, "name": api_name(key), "versions": versions}


BEGINNING: Final = """\
# Conformance
<!-- Made by `make conformance` from the answers of both servers, not by hand. conformance.json beside it says the same to a machine. -->

Every client-facing API of Apache Kafka, at every version, is sent to `bmq standalone` (embedded store) and to one node of Apache Kafka {kafka} side
by side: requests of a well-behaved client, and invalid ones (unknown names, ids and partitions, valid and invalid ones in one request, numbers out of
bounds, wrong epochs, nulls in fields that cannot be null, names given twice, truncated bodies, trailing bytes, versions outside the range). Both answers are
compared field by field.

{cases} requests were compared in {versions} versions of {apis} APIs: {equal} versions are equal in every field, {listed} differ only as listed below,
{different} differ otherwise.
"""
NOT_COMPARED: Final = """\

## What is not compared
- Ids that a server makes (of topics, members, producers, sessions, the cluster) are compared by the object they belong to.
- Of leader epochs, points in time, sizes on disk, error messages and control records, only the presence is compared.
- The order within an array is not compared. The server's own node id, ports and paths are taken as equal.
"""
LEGEND: Final = """\

## By API and version
`=` equal · a number: differs as listed below it · `≠` differs otherwise · `b` served by bmq alone (it speaks Kafka 4.4) · `k` served by Kafka alone · empty: no such version
"""


def as_markdown(result: Mapping[str, Any]) -> str:
    """docs/CONFORMANCE.md of what `as_json` made."""
    cells = [cell for api in result["apis"] for cell in api["versions"].values()]
    compared = [cell for cell in cells if "cases" in cell]
    numbers = {one["name"]: number for number, one in enumerate(result["intended"], 1)}
    count = {state: sum(cell["state"] == state for cell in cells) for state in (EQUAL, INTENDED_ONLY, DIFFERENT)}
    lines = [
        BEGINNING.format(
            kafka=result["kafka"],
            cases=sum(cell["cases"] for cell in compared),
            versions=len(compared),
            apis=sum(any("cases" in cell for cell in api["versions"].values()) for api in result["apis"]),
            equal=count[EQUAL],
            listed=count[INTENDED_ONLY],
            different=count[DIFFERENT],
        ).rstrip("\n"),
        LEGEND.rstrip("\n"),
        "",
        *_table(result["apis"], numbers),
    ]
    if numbers:
        lines += ["", "## Intended differences"]
        lines += [f"{numbers[one['name']]}. **{one['name']}.** {one['reason']}" for one in result["intended"]]
    if result["differences"]:
        lines += ["", "## Other differences", *_others(result["differences"])]
    section = matrix.as_markdown(result["clients"])
    if section:
        lines += ["", *section]
    lines += [NOT_COMPARED.rstrip("\n"), ""]
    return "\n".join(lines)


def _table(apis: Sequence[Any], numbers: Mapping[str, int]) -> list[str]:
    newest = max((int(version) for api in apis for version in api["versions"]), default=0)
    header = ["key", "API", *map(str, range(newest + 1))]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for api in apis:
        marks = [_mark(api["versions"].get(str(version)), numbers) for version in range(newest + 1)]
        lines.append(f"| {' | '.join([str(api['key']), api['name'], *marks])} |")
    return lines


def _mark(cell: Any, numbers: Mapping[str, int]) -> str:
    if cell is None:
        return ""
    state = cell["state"]
    listed = " ".join(str(number) for number in sorted(numbers[name] for name in cell.get("intended", ())))
    marks = {EQUAL: "=", BMQ_ONLY: "b", KAFKA_ONLY: "k", INTENDED_ONLY: listed, DIFFERENT: f"≠ {listed}".strip()}
    return marks[state]


def _others(differences: Sequence[Any]) -> list[str]:
    """One line per API, case and field: with the versions that show it."""
    versions: dict[tuple[str, str, str, str, str], list[int]] = {}
    for one in differences:
        for difference in one["differences"]:
            said = (_short(difference["bmq"]), _short(difference["kafka"]))
            place = _without_version(difference["path"], one["version"])
            versions.setdefault((one["api"], one["case"], place, *said), []).append(one["version"])
    lines = ["", "| API | versions | case | field | bmq | Kafka |", "|---|---|---|---|---|---|"]
    for (api, case, path, bmq, kafka), found in versions.items():
        lines.append(f"| {api} | {_runs(found)} | {case} | `{path}` | `{bmq}` | `{kafka}` |")
    return lines


def _without_version(path: str, version: int) -> str:
    return path.replace(f"-v{version}-", "-")


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _runs(versions: Iterable[int]) -> str:
    """ "3-5, 7" """
    runs: list[list[int]] = []
    for version in sorted(set(versions)):
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
