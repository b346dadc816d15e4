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
from testing.processes import REPOSITORY, dying_with_us

BACKLOG: Final = "backlog"
LIVE: Final = "live"
PARTITIONS: Final = 6
CONSUMERS: Final = 8
RATE: Final = 1_000.0
RECORD_BYTES: Final = 1_024
WARM_UP_S: Final = 5.0
START_S: Final = 8.0
"""Eight interpreters start, with no claim to the processor."""
SETTLE_S: Final = 1.0
"""At the beginning of a window: what was fetched before is still on its way."""
END_WAIT_S: Final = 30.0


class DrainFailed(Exception):
    """A consumer did not do its part."""


def drain(bootstrap: str, begin: float, window_s: float, windows: int, *, is_apart: bool) -> dict[str, Any]:
    """Let the consumers read in every second window, and add up what they did. Raises DrainFailed.

    They belong on other machines: here they run under SCHED_IDLE. But where the kernel shares processors out by session
    first, that counts among processes of this session alone, and as a whole they get as much as a server. `is_apart`: each in
    a session of its own that gives way as well, so that they get what all servers leave.
    """
    command = [sys.executable, "-m", "bench.cluster.drainer", bootstrap, BACKLOG, *map(str, (begin, window_s, windows))]
    running = [
        subprocess.Popen(
            dying_with_us(command),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=REPOSITORY,
            start_new_session=is_apart,
        )
        for _ in range(CONSUMERS)
    ]
    end = begin + windows * window_s
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


def prepare(side: Side, backlog_bytes: int) -> float:
    """Make the topics and fill the backlog; how long the latter took, in seconds."""
    make_topic(side, PARTITIONS, topic=BACKLOG)
    make_topic(side, PARTITIONS, topic=LIVE)
    return fill(side.bootstrap, BACKLOG, PARTITIONS, backlog_bytes, RECORD_BYTES)


def measure(side: Side, rounds: int, window_s: float, *, is_apart: bool = False) -> dict[str, Any]:
    """The producer's latencies in windows without and with the drain, in turn; `is_apart`: see `drain`.

    The windows are short and many, and the consumers are there in all of them: a stall of the machine of a tenth of a
    second makes the p99 of a window, and the start of eight processes would count as draining.
    """
    with SteadyLoad(side.bootstrap, LIVE, PARTITIONS, RATE, RECORD_BYTES, **{"linger.ms": 0}) as load:
        load.wait_until_flowing()
        time.sleep(WARM_UP_S)
        begin = time.monotonic() + START_S
        drained = drain(side.bootstrap, begin, window_s, 2 * rounds, is_apart=is_apart)
        load.finish()
        windows = [
            load.seen.latencies(start + SETTLE_S, start + window_s)
            for start in (begin + number * window_s for number in range(2 * rounds))
        ]
        return {
            "consumers": CONSUMERS,
            "window_s": window_s,
            "rounds": [
                {"calm": calm, "draining": loaded} for calm, loaded in zip(windows[::2], windows[1::2], strict=True)
            ],
            "drained": drained,
            "drained_mb_per_s": round(drained["records"] * RECORD_BYTES / (rounds * window_s) / 1e6, 1),
            "load": load.facts(),
        }
