"""Runs a job's steps one after another: keeps results in a journal, shows progress, retries transient failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol, TypeVar

import structlog

from bmq.spark.jobs.journal import Journal
from bmq.spark.jobs.outcome import BrokenOff, JobFailed, SparkGone

RETRY_FIRST_S: Final = 1.0
RETRY_LONGEST_S: Final = 15.0
GIVE_UP_AFTER_S: Final = 600.0
_SENTENCE_CHARACTERS_MAX: Final = 600

_log = structlog.get_logger("bmq.spark")

S = TypeVar("S")
T = TypeVar("T")


class Progress(Protocol):
    """Receives a job's progress; `total` may grow."""

    def show(self, done: int, total: int, unit: str) -> None: ...


class SilentProgress:
    """Progress that is not shown."""

    def show(self, done: int, total: int, unit: str) -> None:
        pass


def run_steps(
    steps: Sequence[S],
    perform: Callable[[S], Any],
    journal: Journal,
    progress: Progress,
    *,
    size_of: Callable[[S], int],
    unit: str,
) -> Iterator[Any]:
    """Each step's result in order: from the journal, or computed now and stored there first."""
    total = sum(size_of(step) for step in steps)
    done = 0
    progress.show(done, total, unit)
    for number, step in enumerate(steps):
        result = journal.result(number)
        if result is None:
            result = perform(step)
            journal.record(number, result)
        done += size_of(step)
        progress.show(done, total, unit)
        yield result


def spark_errors(what: str, action: Callable[[], T]) -> T:
    """The action's result. Raises JobFailed with the root cause's sentence; BrokenOff if it may pass; SparkGone.

    Spark wraps an executor's exception in a Java exception with the traceback as its text.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        return action()
    except (Py4JNetworkError, ConnectionError) as error:
        raise SparkGone(f"{what}: the JVM of Spark has ended") from error
    except (PySparkException, Py4JError) as error:
        raise failure_of(what, str(error)) from error


_FINAL: Final = frozenset(
    {
        "JobFailed",
        "DamagedBatch",
        "DataLoss",
        "UnknownTopic",
        "BadOption",
        "StoreUnreadable",
        "SparkTooOld",
        "ModuleNotFoundError",
    }
)
"""Class names of executor and source errors that waiting does not cure."""
_FOREVER: Final = ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException", "IllegalArgumentException", "AnalysisException")
"""Spark's own errors of that kind, found anywhere in the text."""
_RAISED: Final = re.compile(r"(?:[A-Za-z_]\w*\.)*([A-Z]\w*): (.+)", re.ASCII)


def failure_of(what: str, text: str) -> JobFailed:
    """Parse a Spark failure's text: the sentence of the innermost named error, preferring one of ours. Pure."""
    raised = [
        (match[0].startswith("bmq."), match[1], match[2])
        for line in text.splitlines()
        if (match := _RAISED.fullmatch(line.strip()))
    ]
    ours = [each for each in raised if each[0]]
    _, name, sentence = (
        ours or raised or [(False, "", next(filter(str.strip, text.splitlines()), "no reason given"))]
    )[-1]
    is_final = name in _FINAL or (not ours and any(word in text for word in _FOREVER))
    return (JobFailed if is_final else BrokenOff)(f"{what}: {sentence.strip()[:_SENTENCE_CHARACTERS_MAX]}")


class Persistence:
    """Retries until there was no progress for `give_up_after_s` seconds. Each pause is twice as long as the last."""

    def __init__(
        self,
        give_up_after_s: float = GIVE_UP_AFTER_S,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._give_up_after_s = give_up_after_s
        self._now = now
        self._sleep = sleep
        self._pause_s = RETRY_FIRST_S
        self._since_s = now()

    def has_got_on(self) -> None:
        self._pause_s = RETRY_FIRST_S
        self._since_s = self._now()

    def wait_after(self, failed: BrokenOff) -> None:
        """Pause before the next try. Raises `failed` when no more tries are left."""
        if self._now() + self._pause_s - self._since_s > self._give_up_after_s:
            raise failed
        _log.warning("job_waits", reason=str(failed), pause_s=self._pause_s)
        self._sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, RETRY_LONGEST_S)
