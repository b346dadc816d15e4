"""`bmq verify`: reads every stored segment of topics, in this process. The checks are those of `bmq spark verify`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from bmq.cli.job import job
from bmq.cli.kafka.rows import counted
from bmq.cli.progress import JobProgress
from bmq.cli.spark_output import print_verified
from bmq.cli.terminal import print_json
from bmq.hdfs.location import is_hdfs
from bmq.server.settings import Settings
from bmq.spark.jobs.outcome import ExitCode, JobFailed


def run_verify(
    settings: Settings,
    topics: Sequence[str],
    *,
    has_replicas: bool,
    thread_count: int | None,
    state: Path | None,
    is_dry_run: bool,
    as_json: bool,
) -> None:
    """Print a report; exits with DAMAGE_FOUND when something is wrong. Raises typer.Exit."""
    with job("arrow"):
        from bmq.spark.jobs.stored_segments import all_segments
        from bmq.spark.jobs.stores import StoreAddress
        from bmq.spark.jobs.verify import verify_here

        address = StoreAddress(_url(settings), hdfs=settings.hdfs)
        if is_dry_run:
            tasks = all_segments(address, topics)
            if as_json:
                print_json(
                    [
                        {"topic": t.topic, "partition": t.partition, "path": t.path, "bytes": t.valid_bytes}
                        for t in tasks
                    ]
                )
            else:
                total = sum(task.valid_bytes for task in tasks)
                sys.stdout.write(f"{counted(len(tasks), 'segment')} of {total} bytes in {address.url}\n")
            return
        with JobProgress("verify", has_document=as_json) as progress:
            report = verify_here(
                address,
                topics,
                thread_count=thread_count or os.cpu_count() or 1,
                has_replicas=has_replicas,
                state=state,
                progress=progress,
            )
        if as_json:
            print_json(report.to_json())
        else:
            print_verified(report)
        if not report.is_clean:
            raise typer.Exit(ExitCode.DAMAGE_FOUND)


def _url(settings: Settings) -> str:
    """Raises JobFailed for a directory that is not there."""
    if is_hdfs(settings.store):
        return settings.store
    path = Path(settings.store.removeprefix("file:").removeprefix("//")) if settings.store else settings.data
    if not path.is_dir():
        raise JobFailed(
            f"the embedded store {path} does not exist; name one with --data, or an hdfs:// one with --store"
        )
    return f"file:{path.absolute()}"
