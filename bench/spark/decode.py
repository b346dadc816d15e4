"""The cost of verifying relative to reading, for uncompressed records and for each codec."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final

from bench.cluster.sides import BmqSide
from bench.spark.topics import Topic
from testing.processes import REPOSITORY, dying_with_us

WAIT_S: Final = 600.0


class DecodeFailed(Exception):
    """The job failed, or its two passes read different amounts."""


def decode(side: BmqSide, topic: Topic, rounds: int) -> list[dict[str, Any]]:
    """Each round's `read` and `verify`: stored `bytes`, `value_bytes` before compression, `seconds`, `cpu_s`.

    Raises DecodeFailed.
    """
    command = [sys.executable, "-m", "bench.spark.decode_job", side.cluster.store, topic.name, str(rounds)]
    try:
        done = subprocess.run(
            dying_with_us(command), capture_output=True, text=True, timeout=WAIT_S, check=False, cwd=REPOSITORY
        )
    except subprocess.TimeoutExpired:
        raise DecodeFailed(f"{topic.name} was not read within {WAIT_S:g} s") from None
    if done.returncode:
        raise DecodeFailed(f"{topic.name}: {done.stderr.strip()[-2_000:]}")
    found: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    for one in found:
        if one["read"]["bytes"] != one["verify"]["bytes"] or not one["read"]["bytes"]:
            raise DecodeFailed(
                f"{topic.name}: {one['read']['bytes']} bytes are read, {one['verify']['bytes']} verified"
            )
        for passed in one.values():
            passed["value_bytes"] = topic.value_bytes
    return found
