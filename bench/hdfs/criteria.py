"""What bmq's HDFS client has to show beside Hadoop's own and hdfs-native, and alone. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from bench.criteria import (
    Absolute,
    Criterion,
    Evidence,
    Ratio,
    Samples,
    judge_absolute,
    judge_ratio,
    judged,
    parts_by_id,
    unmeasured,
)

LOADS: Final = "loads"
JVM_DEFAULTS: Final = "jvm_defaults"
"""The same loads, all JVMs as they come."""
TAKEOVERS: Final = ("takeover", "takeover_dead_datanode", "takeover_hung_datanode")
ROLL: Final = "roll"
PARTS: Final = (LOADS, *TAKEOVERS, ROLL, JVM_DEFAULTS)
DEFINITIONS: Final[dict[str, int]] = {}

RIVALS: Final = {"java": "Hadoop's client", "native": "hdfs-native"}
NO_RIVAL: Final = "no rival takes a file over like this"


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


def _ratio(
    name: str,
    what: str,
    unit: str,
    load: str,
    of: Callable[[Samples], float],
    verdict: tuple[str, float] = ("", 0),
    sides: tuple[str, str] = ("fanout", "java"),
) -> Ratio:
    ours, theirs = sides
    return Ratio(name, LOADS, what, unit, *verdict, of, (ours, load), (theirs, load), RIVALS[theirs])


PIPELINE: Final = ("pipeline", "java")
NATIVE: Final = ("fanout", "native")

RATIOS: Final = (
    _ratio("append_16k_p50_ratio", "16 KiB append, hflush, p50", "ms", "append_16k", _p50, ("<=", 1.0)),
    _ratio("append_16k_hsync_p50_ratio", "16 KiB append, hsync, p50", "ms", "append_16k_hsync", _p50, ("<=", 1.2)),
    _ratio(
        "outstanding_64_acks_ratio",
        "64 outstanding 16 KiB appends",
        "acks/s",
        "outstanding_64",
        _acks_per_s,
        (">=", 1.0),
    ),
    _ratio("stream_ratio", "stream, fan-out", "MB/s", "stream", _mb_per_s, (">=", 0.6)),
    _ratio("cpu_per_gb_fanout_ratio", "client CPU per GB, fan-out", "s", "stream", _cpu_per_gb, ("<=", 1.0)),
    _ratio(
        "cpu_per_gb_pipeline_ratio", "client CPU per GB, pipeline", "s", "stream", _cpu_per_gb, ("<=", 0.5), PIPELINE
    ),
    _ratio("read_closed_ratio", "read a closed block, 8 MiB a time", "MB/s", "read_8m", _mb_per_s, (">=", 1.0), NATIVE),
    _ratio("append_16k_p99_ratio", "16 KiB append, hflush, p99", "ms", "append_16k", _p99),
    _ratio("append_16k_hsync_p99_ratio", "16 KiB append, hsync, p99", "ms", "append_16k_hsync", _p99),
    _ratio("append_16k_pipeline_p50_ratio", "16 KiB append, pipeline, p50", "ms", "append_16k", _p50, sides=PIPELINE),
    _ratio("stream_pipeline_ratio", "stream, pipeline", "MB/s", "stream", _mb_per_s, sides=PIPELINE),
    _ratio("cpu_per_ack_ratio", "client CPU per outstanding append", "us", "outstanding_64", _cpu_per_ack),
    _ratio("read_1m_ratio", "read a closed block, 1 MiB a time", "MB/s", "read_1m", _mb_per_s, sides=NATIVE),
    _ratio("read_64k_p50_ratio", "read 64 KiB of it, p50", "ms", "read_64k", _p50, sides=NATIVE),
)
# With the default of every JVM setting: reported, never judged in the place of the others.
WITH_JVM_DEFAULTS: Final = tuple(
    replace(ratio, id=f"{ratio.id}_jvm_defaults", part=JVM_DEFAULTS, what=f"{ratio.what}; JVM defaults", op="", bound=0)
    for ratio in RATIOS
    if ratio.op
)


def _roll_ratio(raw: Samples) -> float:
    return float(raw["around"]["p99_ms"]) / float(raw["elsewhere"]["p99_ms"])


TAKEOVER, DEAD, HUNG = TAKEOVERS
ABSOLUTES: Final = (
    Absolute("takeover_p50_ms", TAKEOVER, "takeover of a file, p50", "ms", 40, lambda raw: raw["all"]["p50_ms"], NO_RIVAL),
    Absolute("takeover_p99_ms", TAKEOVER, "takeover of a file, p99", "ms", 150, lambda raw: raw["all"]["p99_ms"], NO_RIVAL),
    Absolute(
        "takeover_dead_datanode_p50_ms", DEAD, "takeover, a DataNode dead, p50", "ms", 200,
        lambda raw: raw["all"]["p50_ms"], NO_RIVAL,
    ),
    Absolute(
        "takeover_hung_datanode_s", HUNG, "takeover, a DataNode hung, longest", "s", 3,
        lambda raw: raw["all"]["max_ms"] / 1000, NO_RIVAL,
    ),
    Absolute("roll_p99_ratio", ROLL, "append p99, around a roll / elsewhere", "", 2, _roll_ratio, "it is bmq beside itself"),
)  # fmt: skip
CONTENTS: Final = Absolute(
    "takeover_lost_or_doubled", TAKEOVER, "lost or doubled by a takeover", "", 0,
    lambda raw: raw["lost_or_doubled"], NO_RIVAL,
)  # fmt: skip
"""Of all takeovers together, whatever had happened to the DataNodes."""
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES, (CONTENTS,), WITH_JVM_DEFAULTS)


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(judge_ratio(ratio, evidence) for ratio in RATIOS),
        *(judge_absolute(absolute, evidence) for absolute in ABSOLUTES),
        judge_contents(evidence),
        *(judge_ratio(ratio, evidence) for ratio in WITH_JVM_DEFAULTS),
    ]


def judge_contents(evidence: Evidence) -> Criterion:
    """Only when every kind of takeover was measured whole."""
    each = [judge_absolute(replace(CONTENTS, part=part), evidence) for part in TAKEOVERS]
    beside = {"rival": NO_RIVAL}
    if reasons := [
        f"{part}: {one['reason']}" for part, one in zip(TAKEOVERS, each, strict=True) if one["value"] is None
    ]:
        return {**unmeasured(CONTENTS, "; ".join(reasons)), **beside}
    return {**judged(CONTENTS, sum(one["value"] for one in each)), **beside}
