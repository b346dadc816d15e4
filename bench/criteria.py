"""What the figures have to show: each criterion from the raw samples, or the reason why it was not measured. Pure.

Results hold the samples of each part by side, `{"kill9_broker": {"bmq": {...}, "kafka": {...}}}`; a part whose sides are
put under each load in turn has `{"wanted": 3, "pairs": [{"bmq": {...}, "kafka": {...}}, ...]}` instead. A criterion counts
only when all that was wanted was measured: no side failed, no round and no pair is missing, the samples follow today's
definition, and the revision was clean.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from bench.revision import DIRTY_SUFFIX

Samples = Mapping[str, Any]
Figure = Callable[[Samples], float]
Criterion = dict[str, Any]
"""As it stands in a results file: id, what, unit, op, bound, value (None: not measured), holds, and a reason if not."""

BMQ: Final = "bmq"
KAFKA: Final = "kafka"
RIVAL: Final = "rival"
"""In a criterion: whoever is measured beside bmq."""
# What a figure raises when the samples do not have it.
NOT_THERE: Final = (KeyError, IndexError, TypeError, ValueError, ZeroDivisionError, statistics.StatisticsError)


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our figure divided by the rival's, pair by pair; the criterion is the median of all pairs.

    `ours` and `theirs` lead to the samples inside a pair. Without `op` it is reported and not judged.
    """

    id: str
    part: str
    what: str
    unit: str
    op: str
    bound: float
    of: Figure
    ours: tuple[str, ...] = (BMQ,)
    theirs: tuple[str, ...] = (KAFKA,)
    rival: str = "Apache Kafka"


@dataclass(frozen=True, slots=True)
class Absolute:
    """A figure of bmq, from its samples of `part`; the rival's is found in the same way and stands beside it.

    `no_rival`: why there is none. Where there is one, both sides have to be measured. Without `op` it is reported only.
    """

    id: str
    part: str
    what: str
    unit: str
    bound: float
    of: Figure
    no_rival: str = ""
    op: str = "<="


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a results file holds. `definitions`: today's number of a part's definition where it is not 1; samples that
    follow an earlier one are kept and not judged.
    """

    parts: Mapping[str, Samples]
    failures: Mapping[str, Sequence[str]]
    measured: Mapping[str, Mapping[str, Any]]
    definitions: Mapping[str, int]

    def trouble(self, part: str) -> str:
        """Why nothing can be concluded from a part; empty when it was measured as it should be."""
        reasons = list(self.failures.get(part, ()))
        if part not in self.parts:
            return "; ".join(reasons) or "it was not run"
        origin = self.measured.get(part, {})
        if origin.get("definition", 1) != self.definitions.get(part, 1):
            reasons.append("its samples are of an earlier definition")
        if str(origin.get("revision", DIRTY_SUFFIX)).endswith(DIRTY_SUFFIX):
            reasons.append(f"it was measured on a dirty tree ({origin.get('revision', 'unknown')})")
        if origin.get("sides"):
            reasons.append(f"only {', '.join(origin['sides'])} was measured")
        return "; ".join(reasons)


def parts_by_id(*every: Sequence[Ratio] | Sequence[Absolute]) -> dict[str, str]:
    """The part each criterion is judged by."""
    return {one.id: one.part for some in every for one in some}


def evaluate(evidence: Evidence, ratios: Iterable[Ratio], absolutes: Iterable[Absolute]) -> list[Criterion]:
    """All of them, in order: the judged ones first as they are given, absolutes in front."""
    return [
        *(judge_absolute(absolute, evidence) for absolute in absolutes),
        *(judge_ratio(ratio, evidence) for ratio in ratios),
    ]


def judge_absolute(absolute: Absolute, evidence: Evidence) -> Criterion:
    sides = evidence.parts.get(absolute.part, {})
    rival = None if absolute.no_rival else side_figure(absolute, sides.get(KAFKA, {}))
    beside = {"rival": absolute.no_rival or ("not measured" if rival is None else round(rival, 4))}
    reason = evidence.trouble(absolute.part)
    wanted = (BMQ,) if absolute.no_rival else (BMQ, KAFKA)
    reason = reason or "; ".join(filter(None, (shortfall(side, sides.get(side, {})) for side in wanted)))
    value = side_figure(absolute, sides.get(BMQ, {}))
    if not reason and (value is None or (rival is None and not absolute.no_rival)):
        reason = f"the samples of {BMQ if value is None else KAFKA} do not have it"
    if not absolute.op:
        return {**reported(absolute, value, reason), **beside}
    if reason or value is None:
        return {**unmeasured(absolute, reason), **beside}
    return {**judged(absolute, value), **beside}


def judge_ratio(ratio: Ratio, evidence: Evidence) -> Criterion:
    found = evidence.parts.get(ratio.part, {})
    pairs = found.get("pairs", [])
    reason = evidence.trouble(ratio.part)
    values = pair_ratios(ratio, pairs)
    wanted = found.get("wanted", 0)
    if not reason and (len(values) < len(pairs) or len(pairs) < wanted or not values):
        reason = f"{len(values)} of {max(wanted, len(pairs))} pairs were measured on both sides"
    medians = {
        side: round(statistics.median(figures), 4)
        for side, path in ((BMQ, ratio.ours), (RIVAL, ratio.theirs))
        if (figures := figures_of(ratio, pairs, path))
    }
    spread = {"spread": [round(of(values), 4) for of in (min, statistics.median, max)]} if values else {}
    beside = {"rival": ratio.rival, "medians": medians, **spread}
    if not ratio.op:
        return {**reported(ratio, statistics.median(values) if values else None, reason), **beside}
    if reason:
        return {**unmeasured(ratio, reason), **beside}
    return {**judged(ratio, statistics.median(values)), **beside}


def side_figure(absolute: Absolute, samples: Samples) -> float | None:
    """None when the side's samples do not have it."""
    try:
        return float(absolute.of(samples))
    except NOT_THERE:
        return None


def shortfall(side: str, samples: Samples) -> str:
    """What of a side's rounds is missing; empty when nothing is."""
    rounds, wanted = len(samples.get("rounds", ())), samples.get("wanted")
    if not samples:
        return f"{side} was not measured"
    if wanted is not None and (rounds < wanted or wanted < 1):
        return f"{rounds} of {wanted} rounds of {side}"
    return ""


def pair_ratios(ratio: Ratio, pairs: Iterable[Samples]) -> list[float]:
    """One for each pair in which both sides have the figure."""
    found = []
    for pair in pairs:
        ours, theirs = pair_figure(ratio, pair, ratio.ours), pair_figure(ratio, pair, ratio.theirs)
        if ours is not None and theirs:
            found.append(ours / theirs)
    return found


def figures_of(ratio: Ratio, pairs: Iterable[Samples], path: Sequence[str]) -> list[float]:
    """The figure behind the ratio, of every pair that has it on this side."""
    return [figure for pair in pairs if (figure := pair_figure(ratio, pair, path)) is not None]


def pair_figure(ratio: Ratio, pair: Samples, path: Sequence[str]) -> float | None:
    raw: Any = pair
    try:
        for name in path:
            raw = raw[name]
        return None if "failure" in raw else float(ratio.of(raw))
    except NOT_THERE:
        return None


def judged(one: Ratio | Absolute, value: float) -> Criterion:
    holds = value >= one.bound if one.op == ">=" else value <= one.bound
    return {**_head(one), "op": one.op, "bound": one.bound, "value": round(value, 4), "holds": holds}


def unmeasured(one: Ratio | Absolute, reason: str) -> Criterion:
    return {
        **_head(one),
        "op": one.op,
        "bound": one.bound,
        "value": None,
        "holds": False,
        "reason": f"not measured: {reason}",
    }


def reported(one: Ratio | Absolute, value: float | None, reason: str) -> Criterion:
    """Nothing is claimed of it, so it is shown whatever it is worth; `reason`: why that is less than it should be."""
    found = None if value is None else round(value, 4)
    return {**_head(one), "value": found, **({"reason": reason} if reason else {})}


def _head(one: Ratio | Absolute) -> Criterion:
    return {"id": one.id, "part": one.part, "what": one.what, "unit": one.unit}
