"""Turns exceptions of Spark, Iceberg and Hadoop into one sentence of the job's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from bmq.spark.tables.errors import TableJobError

_CAUSES_MAX: Final = 20


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Raises TableJobError with `what` and the first line of the cause; the job's own errors pass unchanged."""
    try:
        yield
    except Py4JJavaError as error:
        raise TableJobError(f"{what}: {innermost(error.java_exception)}") from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise TableJobError(f"{what}: the JVM of Spark has ended") from error
    except PySparkException as error:
        raise TableJobError(f"{what}: {first_line(error)}") from error


def innermost(exception: Any) -> str:
    """The class and message of a Java exception's root cause."""
    for _ in range(_CAUSES_MAX):
        cause = exception.getCause()
        if cause is None:
            break
        exception = cause
    message = str(exception.getMessage() or "").strip()
    name = str(exception.getClass().getSimpleName())
    return f"{name}: {message.splitlines()[0]}" if message else name


def is_data_loss(error: BaseException) -> bool:
    """Whether the source stopped for records that are gone: both Spark's connector and ours then name the option."""
    return "failOnDataLoss" in str(error)


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
