"""The common part of all campaign commands: a new directory, the run, its figures as JSON, and a clean end."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from bench.hdfs.commands import prepare_process
from bench.spark.campaign_faults import CampaignStuck
from testing.processes import kill_everything


class CampaignPlan(Protocol):
    @property
    def directory(self) -> Path: ...
    @property
    def seed(self) -> int: ...


P = TypeVar("P", bound=CampaignPlan)


def perform_command(run: Callable[[P], dict[str, Any]], plan: P, results: Path | None) -> int:
    """Returns the exit code: 0 if it ran to its end. `plan.directory` is recreated; `results`: file for figures."""
    prepare_process()
    shutil.rmtree(plan.directory, ignore_errors=True)
    plan.directory.mkdir(parents=True)
    try:
        found = run(plan)
    except CampaignStuck as error:
        print(f"stuck, seed {plan.seed}: {error}", file=sys.stderr)
        return 1
    finally:
        kill_everything()
    text = json.dumps(found, indent=1)
    if results is not None:
        results.write_text(text + "\n")
    print(text)
    return 0
