"""What the figures have to show: ratios of pairs and figures of bmq alone, or the reason why one was not measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from bench.criteria import judged, unmeasured
from bench.hdfs.figures import spread

Samples = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our figure divided by the rival's, pair by pair; the criterion is the median.

    `ours` and `theirs` are (contender, load) as they stand in a pair. `above_1`: what a ratio greater than 1 means. A ratio
    without `op` is reported and not judged.
    """

    id: str
    what: str
    unit: str
    op: str
    bound: float
    ours: tuple[str, str]
    theirs: tuple[str, str]
    of: Callable[[Samples], float]
    above_1: str


def _p50(raw: Samples) -> float:
    return float(raw["p50_ms"])


def _p99(raw: Samples) -> float:
    return float(raw["p99_ms"])


def _acks_per_s(raw: Samples) -> float:
    return float(raw["acks_per_s"])


def _mb_per_s(raw: Samples) -> float:
    return float(raw["mb_per_s"])


def _cpu_per_gb(raw: Samples) -> float:
    return float(raw["cpu_s_per_gb"])


def _cpu_per_ack(raw: Samples) -> float:
    return float(raw["cpu_us_per_ack"])


_SLOWER: Final = "bmq is slower"
_FASTER: Final = "bmq is faster"
_DEARER: Final = "bmq uses more CPU"

RATIOS: Final = (
    Ratio(
        "append_16k_p50_ratio", "16 KiB append, hflush, p50", "ms", "<=", 1.0,
        ("fanout", "append_16k"), ("java", "append_16k"), _p50, _SLOWER,
    ),
    Ratio(
        "append_16k_hsync_p50_ratio", "16 KiB append, hsync, p50", "ms", "<=", 1.2,
        ("fanout", "append_16k_hsync"), ("java", "append_16k_hsync"), _p50, _SLOWER,
    ),
    Ratio(
        "outstanding_64_acks_ratio", "64 outstanding 16 KiB appends", "acks/s", ">=", 1.0,
        ("fanout", "outstanding_64"), ("java", "outstanding_64"), _acks_per_s, _FASTER,
    ),
    Ratio(
        "stream_ratio", "stream, fan-out", "MB/s", ">=", 0.6,
        ("fanout", "stream"), ("java", "stream"), _mb_per_s, _FASTER,
    ),
    Ratio(
        "cpu_per_gb_fanout_ratio", "client CPU per GB, fan-out", "s", "<=", 1.0,
        ("fanout", "stream"), ("java", "stream"), _cpu_per_gb, _DEARER,
    ),
    Ratio(
        "cpu_per_gb_pipeline_ratio", "client CPU per GB, pipeline", "s", "<=", 0.5,
        ("pipeline", "stream"), ("java", "stream"), _cpu_per_gb, _DEARER,
    ),
    Ratio(
        "read_closed_ratio", "read a closed block, 8 MiB a time", "MB/s", ">=", 1.0,
        ("fanout", "read_8m"), ("native", "read_8m"), _mb_per_s, _FASTER,
    ),
)  # fmt: skip
# Reported beside the criteria, without a bound.
MORE_RATIOS: Final = (
    Ratio(
        "append_16k_p99_ratio", "16 KiB append, hflush, p99", "ms", "", 0,
        ("fanout", "append_16k"), ("java", "append_16k"), _p99, _SLOWER,
    ),
    Ratio(
        "append_16k_hsync_p99_ratio", "16 KiB append, hsync, p99", "ms", "", 0,
        ("fanout", "append_16k_hsync"), ("java", "append_16k_hsync"), _p99, _SLOWER,
    ),
    Ratio(
        "append_16k_pipeline_p50_ratio", "16 KiB append, pipeline, p50", "ms", "", 0,
        ("pipeline", "append_16k"), ("java", "append_16k"), _p50, _SLOWER,
    ),
    Ratio(
        "stream_pipeline_ratio", "stream, pipeline", "MB/s", "", 0,
        ("pipeline", "stream"), ("java", "stream"), _mb_per_s, _FASTER,
    ),
    Ratio(
        "cpu_per_ack_ratio", "client CPU per outstanding append", "us", "", 0,
        ("fanout", "outstanding_64"), ("java", "outstanding_64"), _cpu_per_ack, _DEARER,
    ),
    Ratio(
        "read_1m_ratio", "read a closed block, 1 MiB a time", "MB/s", "", 0,
        ("fanout", "read_1m"), ("native", "read_1m"), _mb_per_s, _FASTER,
    ),
    Ratio(
        "read_64k_p50_ratio", "read 64 KiB of it, p50", "ms", "", 0,
        ("fanout", "read_64k"), ("native", "read_64k"), _p50, _SLOWER,
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Absolute:
    """A figure of bmq alone; `part` is the measurement it comes from."""

    id: str
    part: str
    bound: float
    of: Callable[[Samples], float]


def _roll_ratio(raw: Samples) -> float:
    return float(raw["around"]["p99_ms"]) / float(raw["elsewhere"]["p99_ms"])


ABSOLUTES: Final = (
    Absolute("takeover_p50_ms", "takeover", 40, lambda raw: float(raw["all"]["p50_ms"])),
    Absolute("takeover_p99_ms", "takeover", 150, lambda raw: float(raw["all"]["p99_ms"])),
    Absolute("takeover_lost_or_doubled", "takeover_contents", 0, lambda raw: float(raw["lost_or_doubled"])),
    Absolute("takeover_dead_datanode_p50_ms", "takeover_dead_datanode", 200, lambda raw: float(raw["all"]["p50_ms"])),
    Absolute("takeover_hung_datanode_s", "takeover_hung_datanode", 3, lambda raw: float(raw["all"]["max_ms"]) / 1000),
    Absolute("roll_p99_ratio", "roll", 2, _roll_ratio),
)


def pair_ratios(ratio: Ratio, pairs: list[Samples]) -> list[float]:
    """One ratio for each pair in which both sides were measured."""
    found = []
    for pair in pairs:
        ours, theirs = _figure(ratio, pair, ratio.ours), _figure(ratio, pair, ratio.theirs)
        if ours is not None and theirs:
            found.append(ours / theirs)
    return found


def figures_of(ratio: Ratio, pairs: list[Samples], side: tuple[str, str]) -> list[float]:
    """The figure behind the ratio, of every pair in which this side was measured."""
    return [figure for pair in pairs if (figure := _figure(ratio, pair, side)) is not None]


def _figure(ratio: Ratio, pair: Samples, side: tuple[str, str]) -> float | None:
    contender, load = side
    raw = pair.get(contender, {}).get(load)
    return None if raw is None else ratio.of(raw)


def ratio_spreads(pairs: list[Samples]) -> dict[str, Any]:
    """For each ratio that was measured: least, median and greatest of its pairs, and what above 1 means."""
    return {
        ratio.id: {**spread(values), "above_1": ratio.above_1}
        for ratio in (*RATIOS, *MORE_RATIOS)
        if (values := pair_ratios(ratio, pairs))
    }


def evaluate(pairs: list[Samples], alone: Samples, failures: dict[str, list[str]]) -> list[dict[str, Any]]:
    """All criteria, in order. One that could not be measured has no value, does not hold, and says why."""
    criteria = []
    for ratio in RATIOS:
        values = pair_ratios(ratio, pairs)
        if values:
            criteria.append(judged(ratio.id, statistics.median(values), ratio.op, ratio.bound))
        else:
            reason = _reason(failures, {ratio.ours[1], ratio.theirs[1]})
            criteria.append(unmeasured(ratio.id, ratio.op, ratio.bound, reason))
    for absolute in ABSOLUTES:
        raw = alone.get(absolute.part)
        if raw is None:
            criteria.append(unmeasured(absolute.id, "<=", absolute.bound, _reason(failures, {absolute.part})))
        else:
            criteria.append(judged(absolute.id, absolute.of(raw), "<=", absolute.bound))
    return criteria


def _reason(failures: dict[str, list[str]], parts: set[str]) -> str:
    found = [reason for part in sorted(parts) for reason in failures.get(part, ())]
    return "; ".join(found) or "it was not run"
