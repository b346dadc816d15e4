"""Eight consumers drain a backlog from its beginning: what a producer's latency comes to meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import Any, Final

from bench.cluster.faults import make_topic
from bench.cluster.filling import fill
from bench.cluster.sides import Side
from bench.cluster.steady import SteadyLoad
from tests.support.processes import REPOSITORY, dying_with_us

BACKLOG: Final = "backlog"
LIVE: Final = "live"
PARTITIONS: Final = 6
CONSUMERS: Final = 8
RATE: Final = 1_000.0
RECORD_BYTES: Final = 1_024
WARM_UP_S: Final = 5.0
SETTLE_S: Final = 2.0
START_S: Final = 5.0
"""Eight interpreters start, with no claim to the processor."""
END_WAIT_S: Final = 30.0


class DrainFailed(Exception):
    """A consumer did not do its part."""


def drain(bootstrap: str, begin: float, end: float) -> dict[str, Any]:
    """Let the consumers read until `end`, and add up what they read since `begin`. Raises DrainFailed.

    They belong on other machines: here they get what the servers leave of the processor (`chrt --idle`), not the servers' share.
    """
    command = [sys.executable, "-m", "bench.cluster.drainer", bootstrap, BACKLOG, str(begin), str(end)]
    running = [
        subprocess.Popen(
            dying_with_us(["chrt", "--idle", "0", *command]),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
        )
        for _ in range(CONSUMERS)
    ]
    try:
        said = [process.communicate(timeout=max(0.0, end - time.monotonic()) + END_WAIT_S) for process in running]
    except subprocess.TimeoutExpired:
        raise DrainFailed(f"a consumer did not end within {END_WAIT_S:g} s") from None
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    for process, (_, errors) in zip(running, said, strict=True):
        if process.returncode != 0:
            raise DrainFailed(f"a consumer ended with {process.returncode}: {errors[-1_000:]}")
    found = [json.loads(out.splitlines()[-1]) for out, _ in said]
    return {name: sum(one[name] for one in found) for name in ("records", "passes", "errors")}


def measure(side: Side, backlog_bytes: int, rounds: int, window_s: float) -> dict[str, Any]:
    """The producer's latencies in windows without and with the drain, in turn, and the ratio of their p99."""
    make_topic(side, PARTITIONS, topic=BACKLOG)
    make_topic(side, PARTITIONS, topic=LIVE)
    filled_s = fill(side.bootstrap, BACKLOG, PARTITIONS, backlog_bytes, RECORD_BYTES)
    found = []
    with SteadyLoad(side.bootstrap, LIVE, PARTITIONS, RATE, RECORD_BYTES, **{"linger.ms": 0}) as load:
        load.wait_until_flowing()
        time.sleep(WARM_UP_S)
        for _ in range(rounds):
            time.sleep(SETTLE_S)
            began = time.monotonic()
            time.sleep(window_s)
            calm = load.seen.latencies(began, time.monotonic())
            begin = time.monotonic() + START_S
            drained = drain(side.bootstrap, begin, begin + window_s)
            loaded = load.seen.latencies(begin, begin + window_s)
            found.append(
                {
                    "calm": calm,
                    "draining": loaded,
                    "p99_ratio": round(loaded["p99_ms"] / calm["p99_ms"], 4),
                    "drained_mb_per_s": round(drained["records"] * RECORD_BYTES / window_s / 1e6, 1),
                    "drained": drained,
                }
            )
        load.finish()
        return {
            "backlog_bytes": backlog_bytes,
            "filled_s": round(filled_s, 2),
            "consumers": CONSUMERS,
            "rounds": found,
            "load": load.facts(),
        }
