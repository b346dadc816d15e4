"""What bmq's client has to show on an HDFS with Kerberos, in each protection mode. Pure."""

from __future__ import annotations

from typing import Final

from bench.criteria import Absolute, Criterion, Evidence, Ratio, Samples, judge_absolute, judge_ratio, parts_by_id

AUTHENTICATION: Final = "authentication"
INTEGRITY: Final = "integrity"
PRIVACY: Final = "privacy"
PROTECTIONS: Final = (AUTHENTICATION, INTEGRITY, PRIVACY)
BULK: Final = "privacy_bulk"
"""A stream and a read with privacy."""
TAKEOVER: Final = "takeover"
"""With privacy, which costs most."""
PARTS: Final = (*PROTECTIONS, BULK, TAKEOVER)

OPEN: Final = "open"
SECURE: Final = "secure"
JAVA: Final = "java"
JAVA_OPEN: Final = "java_open"
APPEND: Final = "append_16k"
STREAM: Final = "stream"
READ: Final = "read_8m"
READ_ON: Final = "read_on"
RIVALS: Final = {
    OPEN: "bmq on an open HDFS",
    JAVA: "Hadoop's client with the same protection",
    JAVA_OPEN: "Hadoop's client on an open HDFS",
}
NO_RIVAL: Final = "no rival takes a file over like this"

TO_OPEN_MAX: Final = {AUTHENTICATION: 1.05, INTEGRITY: 1.5, PRIVACY: 1.5}
TO_JAVA_MAX: Final = 1.0


def _p50(raw: Samples) -> float:
    return float(raw["p50_ms"])


def _p99(raw: Samples) -> float:
    return float(raw["p99_ms"])


def _cpu_per_ack(raw: Samples) -> float:
    return float(raw["cpu_us_per_ack"])


def _mb_per_s(raw: Samples) -> float:
    return float(raw["mb_per_s"])


def _cpu_per_gb(raw: Samples) -> float:
    return float(raw["cpu_s_per_gb"])


def _of_appends(protection: str) -> tuple[Ratio, ...]:
    """Judged by the median; tail and CPU are reported."""
    what = f"16 KiB append, {protection}"
    ours = (SECURE, APPEND)
    return (
        Ratio(
            f"{protection}_append_open_ratio", protection, f"{what}, p50", "ms", "<=", TO_OPEN_MAX[protection],
            _p50, ours, (OPEN, APPEND), RIVALS[OPEN],
        ),
        Ratio(
            f"{protection}_append_java_ratio", protection, f"{what}, p50", "ms", "<=", TO_JAVA_MAX,
            _p50, ours, (JAVA, APPEND), RIVALS[JAVA],
        ),
        Ratio(
            f"{protection}_append_p99_java_ratio", protection, f"{what}, p99", "ms", "", 0,
            _p99, ours, (JAVA, APPEND), RIVALS[JAVA],
        ),
        Ratio(
            f"{protection}_cpu_per_ack_java_ratio", protection, f"{what}, client CPU", "us", "", 0,
            _cpu_per_ack, ours, (JAVA, APPEND), RIVALS[JAVA],
        ),
        # How much slower DataNodes are with the protection, whoever asks them.
        Ratio(
            f"{protection}_java_append_open_ratio", protection, f"{what}, p50 of Hadoop's client", "ms", "", 0,
            _p50, (JAVA, APPEND), (JAVA_OPEN, APPEND), RIVALS[JAVA_OPEN],
        ),
    )  # fmt: skip


def _of_bulk(name: str, what: str, load: str, *, op: str = ">=") -> tuple[Ratio, Ratio]:
    """`op`: empty: reported only."""
    sides = ((SECURE, load), (JAVA, load), RIVALS[JAVA])
    return (
        Ratio(f"privacy_{name}_ratio", BULK, f"{what}, privacy", "MB/s", op, 1.0 if op else 0, _mb_per_s, *sides),
        Ratio(
            f"privacy_{name}_cpu_ratio", BULK, f"client CPU per GB, {what}, privacy", "s", "", 0, _cpu_per_gb, *sides
        ),
    )


RATIOS: Final = (
    *(ratio for protection in PROTECTIONS for ratio in _of_appends(protection)),
    *_of_bulk("stream", "stream of 1 GiB", STREAM),
    *_of_bulk("read", "read of 1 GiB, as for consumers that catch up", READ_ON),
    *_of_bulk("lone_read", "read of 1 GiB, 8 MiB a time, one after the other", READ, op=""),
)
ABSOLUTES: Final = (
    Absolute(
        "secure_takeover_p50_ms", TAKEOVER, "takeover of a file, privacy, p50", "ms", 60,
        lambda raw: raw["all"]["p50_ms"], NO_RIVAL,
    ),
    Absolute(
        "secure_takeover_p99_ms", TAKEOVER, "takeover of a file, privacy, p99", "ms", 250,
        lambda raw: raw["all"]["p99_ms"], NO_RIVAL,
    ),
    Absolute(
        "secure_takeover_lost_or_doubled", TAKEOVER, "lost or doubled by a takeover", "", 0,
        lambda raw: raw["lost_or_doubled"], NO_RIVAL,
    ),
)  # fmt: skip
PART_OF: Final = parts_by_id(RATIOS, ABSOLUTES)


def judge(evidence: Evidence) -> list[Criterion]:
    return [
        *(judge_ratio(ratio, evidence) for ratio in RATIOS),
        *(judge_absolute(absolute, evidence) for absolute in ABSOLUTES),
    ]
