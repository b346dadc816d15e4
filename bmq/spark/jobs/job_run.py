"""How a job over ranges of offsets runs: where it keeps its steps, how long they are, and where its progress is shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bmq.spark.jobs.ranges import OFFSETS_PER_STEP
from bmq.spark.jobs.steps import Progress, SilentProgress


@dataclass(frozen=True, slots=True)
class JobRun:
    """With `state` a job can be killed and called again. It then works on the ranges that it planned the first time.

    `range_as_given` (the times as the user wrote them) and `topic_ids` (topic -> id) must be the same then.
    """

    state: Path | None = None
    range_as_given: Mapping[str, Any] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    offsets_per_step: int = OFFSETS_PER_STEP
    progress: Progress = field(default_factory=SilentProgress)
