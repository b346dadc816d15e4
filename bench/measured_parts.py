"""The parts of a run, one behind the other: each under its limit, and a part that fails does not end the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from bench.findings import Findings, say
from bench.logged_errors import said
from bench.runner import Plan
from bench.time_limit import seconds_since, time_limit


def measured_parts(
    plan: Plan,
    findings: Findings,
    runs: Mapping[str, Callable[[], Any]],
    *,
    limit_s: Callable[[str], float] | None = None,
    clean: Callable[[], None] = lambda: None,
) -> dict[str, float]:
    """The seconds that each part of the plan took. An error is noted for its part.

    `limit_s`: the longest that a part may take, in the main thread; None: no limit. `clean`: called after a part that
    failed, as nobody knows what it left behind.
    """
    took: dict[str, float] = {}
    for part in plan.parts:
        say(part)
        began = time.monotonic()
        try:
            with nullcontext() if limit_s is None else time_limit(limit_s(part), part):
                runs[part]()
        except Exception as error:
            findings.failed(part, said(error))
            clean()
        took[part] = seconds_since(began)
    return took
