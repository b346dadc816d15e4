"""Turns exceptions of Spark, Iceberg and Hadoop into one sentence of the job's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from bmq.spark.tables.errors import TableJobError, TableMismatch

_CAUSES_MAX: Final = 20
_NO_CLASS: Final = frozenset({"ClassNotFoundException", "NoClassDefFoundError"})
_REFUSED: Final = frozenset({"ForbiddenException", "NotAuthorizedException"})


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


@contextmanager
def service_errors(what: str) -> Iterator[None]:
    """For the first question to a service, named by `what`. Raises TableMismatch: it has to be set up in another way; TableJobError."""
    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        chain = list(
            _causes(error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None))
        )
        names = {str(each.getClass().getSimpleName()) for each in chain}
        cause = innermost(chain[-1]) if chain else first_line(error)
        if names & _NO_CLASS or any(name in str(error) for name in _NO_CLASS):
            raise TableMismatch(
                f"{what} needs a jar that Spark has not, name it in --jars: {first_line(error)}"
            ) from error
        if names & _REFUSED:
            raise TableMismatch(f"{what} refuses the job: {cause}") from error
        raise TableJobError(f"{what} cannot be used: {cause}") from error


def _causes(exception: Any) -> Iterator[Any]:
    for _ in range(_CAUSES_MAX):
        if exception is None:
            return
        yield exception
        exception = exception.getCause()


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
