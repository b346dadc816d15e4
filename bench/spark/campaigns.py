"""The pipeline's jobs under kill -9: each campaign on its own clusters, as the benchmark's plan says."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from bench.spark import mirror_campaign, resume_campaign, table_campaign
from bench.spark.criteria import MIRROR, RESUME, TABLES
from bench.spark.plan import Plan


def tables(plan: Plan, directory: Path) -> dict[str, Any]:
    """The undisturbed lag, then lost and doubled rows."""
    return table_campaign.run(
        table_campaign.Plan(
            directory=directory,
            seed=plan.seed,
            lag_s=plan.table_lag_watch_s,
            job_kills=plan.job_kills,
            broker_kills=plan.broker_kills,
        )
    )


def mirror(plan: Plan, directory: Path) -> dict[str, Any]:
    return mirror_campaign.run(
        mirror_campaign.Plan(
            directory=directory,
            seed=plan.seed,
            job_kills=plan.job_kills,
            broker_kills=plan.broker_kills,
            away_s=plan.away_s,
        )
    )


def resume(plan: Plan, directory: Path) -> dict[str, Any]:
    return resume_campaign.run(resume_campaign.Plan(directory=directory, seed=plan.seed, records=plan.resume_records))


CAMPAIGNS: Final[dict[str, Callable[[Plan, Path], dict[str, Any]]]] = {TABLES: tables, MIRROR: mirror, RESUME: resume}


def perform(part: str, plan: Plan, directory: Path) -> dict[str, Any]:
    """A campaign's findings with all samples. Raises CampaignStuck, ProcessFailed, AssertionError."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    return CAMPAIGNS[part](plan, directory)
