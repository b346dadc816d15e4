"""How a job ends: a failure is one sentence and the exit code that goes with it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from bmq.extras import install_command
from bmq.server.logs import configure_logs
from bmq.spark.jobs.outcome import ExitCode, JobFailed


@contextmanager
def job(extra: str = "spark") -> Iterator[None]:
    """`extra`: of the package, which has the libraries that the job needs."""
    configure_logs("warning", "auto")
    try:
        yield
    except JobFailed as failed:
        sys.stderr.write(f"bmq: {failed}\n")
        raise typer.Exit(failed.exit_code) from failed
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "bmq":
            raise
        sys.stderr.write(f"bmq: jobs need {error.name}: {install_command(extra)}\n")
        raise typer.Exit(ExitCode.FAILED) from error
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
