"""What each client asked of both servers and what came of it: compared, as JSON and as a section of the document. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final

from tests.conformance.clients.reasons import REASONS, Reason
from tests.conformance.compare import MISSING, Difference, differences
from tests.conformance.schemas import api_name

SIDES: Final = ("bmq", "kafka")


@dataclass(frozen=True, slots=True)
class Behaviour:
    """At one server. `requests`: how often each API (key and version) was asked for; `outcome`: by step what came of it."""

    requests: Mapping[tuple[int, int], int]
    outcome: Mapping[str, Any]

    @property
    def versions(self) -> dict[int, list[int]]:
        """By API the versions that were used."""
        return {
            key: sorted(version for api, version in self.requests if api == key)
            for key in sorted({key for key, _ in self.requests})
        }


@dataclass(frozen=True, slots=True)
class ClientRun:
    """One client at both servers."""

    name: str
    version: str
    bmq: Behaviour
    kafka: Behaviour


def as_json(runs: Iterable[ClientRun], reasons: Sequence[Reason] = REASONS) -> Any:
    """JSON-ready. `unmet`: reasons that nothing needs any more, unless it is chance whether they are needed."""
    runs = list(runs)
    clients = [_client(run, reasons) for run in runs]
    used = {one["reason"] for client in clients for one in client["differences"]}
    return {
        "clients": clients,
        "reasons": [{"name": one.name, "reason": one.reason} for one in reasons if one.name in used],
        "unmet": [one.name for one in reasons if one.name not in used and not one.is_chance],
    }


def unexplained(matrix: Any) -> list[str]:
    """A line for each difference without a reason."""
    return [
        f"{client['name']}: {one['path']}: bmq {one['bmq']!r}, Kafka {one['kafka']!r}"
        for client in matrix["clients"]
        for one in client["differences"]
        if one["reason"] is None
    ]


def _client(run: ClientRun, reasons: Sequence[Reason]) -> Any:
    used = [side.versions for side in (run.bmq, run.kafka)]
    keys = sorted({key for side in used for key in side})
    apis = [{"key": key, "name": api_name(key), **_sides(*(side.get(key, []) for side in used))} for key in keys]
    found = [
        Difference(f"apis/{one['name']}", one["bmq"] or MISSING, one["kafka"] or MISSING)
        for one in apis
        if one["bmq"] != one["kafka"]
    ]
    found += differences({"steps": run.bmq.outcome}, {"steps": run.kafka.outcome})
    return {
        "name": run.name,
        "version": run.version,
        "apis": apis,
        "steps": list(dict.fromkeys([*run.bmq.outcome, *run.kafka.outcome])),
        "differences": [
            {"path": one.path, **_sides(one.bmq, one.kafka), "reason": _reason(run.name, one, reasons)} for one in found
        ],
    }


def _sides(bmq: Any, kafka: Any) -> dict[str, Any]:
    return dict(zip(SIDES, (bmq, kafka), strict=True))


def _reason(client: str, difference: Difference, reasons: Sequence[Reason]) -> str | None:
    return next((one.name for one in reasons if one.meets(client, difference)), None)


SECTION: Final = """\
## Clients
Each client does the same at both servers through a proxy that notes the API and the version of every request: it makes a topic, produces idempotently with each
codec it has, reads as a member of a group that commits and goes on, by the older protocol and by KIP-848 where it can, commits and aborts transactions, asks for
offsets by time, describes and alters configs, deletes records, groups and the topic. The result of each step (records and their offsets, committed offsets, results
of transactions, answers and errors of the admin calls) is compared, and so are the versions that the client chose.

"""


def as_markdown(matrix: Any) -> list[str]:
    """The section's lines; none where no client was run."""
    clients = matrix["clients"]
    if not clients:
        return []
    numbers = {one["name"]: f"c{number}" for number, one in enumerate(matrix["reasons"], 1)}
    lines = [
        *SECTION.splitlines(),
        "### Outcomes",
        "`=` equal · c and a number: differs as listed below · `≠` differs otherwise · empty: the client has no means for it",
        "",
        *_outcomes(clients, numbers),
        "",
        "### Versions used",
        "The same with both servers, or `bmq: … · Kafka: …`",
        "",
        *_versions(clients, numbers),
    ]
    if numbers:
        lines += ["", "### Differences between clients' runs"]
        lines += [f"- {numbers[one['name']]}: **{one['name']}.** {one['reason']}" for one in matrix["reasons"]]
    missed = unexplained(matrix)
    if missed:
        lines += ["", "### Differences without a reason", *(f"- {line}" for line in missed)]
    return lines


def _outcomes(clients: Sequence[Any], numbers: Mapping[str, str]) -> list[str]:
    steps = list(dict.fromkeys(step for client in clients for step in client["steps"]))
    lines = [f"| client | {' | '.join(steps)} |", "|---" * (len(steps) + 1) + "|"]
    for client in clients:
        marks = [_mark(client, f"steps/{step}", numbers) if step in client["steps"] else "" for step in steps]
        lines.append(f"| {_title(client)} | {' | '.join(marks)} |")
    return lines


def _title(client: Any) -> str:
    """ "Java 4" of version 4.3.0 is "Java 4.3.0"."""
    words = client["name"].split()
    return " ".join([*(word for word in words if not word.isdecimal()), client["version"]])


def _versions(clients: Sequence[Any], numbers: Mapping[str, str]) -> list[str]:
    names = dict(sorted((one["key"], one["name"]) for client in clients for one in client["apis"]))
    lines = [f"| key | API | {' | '.join(map(_title, clients))} |", "|---" * (len(clients) + 2) + "|"]
    for key, name in names.items():
        cells = []
        for client in clients:
            used = next((one for one in client["apis"] if one["key"] == key), None)
            cells.append("" if used is None else _used(used, _mark(client, f"apis/{name}", numbers)))
        lines.append(f"| {key} | {name} | {' | '.join(cells)} |")
    return lines


def _used(api: Any, mark: str) -> str:
    bmq, kafka = (", ".join(map(str, api[side])) or "none" for side in SIDES)
    return bmq if bmq == kafka else f"bmq: {bmq} · Kafka: {kafka} ({mark})"


def _mark(client: Any, path: str, numbers: Mapping[str, str]) -> str:
    found = [one for one in client["differences"] if one["path"] == path or fnmatchcase(one["path"], f"{path}/*")]
    marks = sorted({numbers[one["reason"]] if one["reason"] else "≠" for one in found})
    return " ".join(marks) or "="
