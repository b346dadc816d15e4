"""What a Python worker of Spark is prepared with before it works for us, on the driver and on executors alike."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import PurePath
from typing import Final
from zipimport import zipimporter

import structlog

_ARCHIVES: Final = re.compile(r"pyspark\.zip|py4j-.*-src\.zip|spark-core_.*\.jar")
"""What Spark puts on a worker's path; nobody changes them while it runs."""


def prepare_worker() -> None:
    """Can be called before each piece of work; changes nothing outside of this process."""
    quiet_logs()
    forget_archives()


def quiet_logs() -> None:
    """Warnings on standard error, where Spark's workers have their log, unless the program has said otherwise."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        )


def forget_archives() -> None:
    """Drop Python's finders for Spark's own archives; it makes them again, without reading anything, if it needs them.

    Spark calls importlib.invalidate_caches before each task and each step of planning, and every finder of an archive then
    reads the archive's whole directory: one for each package that was imported out of it, a tenth of a second together.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and _ARCHIVES.fullmatch(PurePath(finder.archive).name):
            sys.path_importer_cache.pop(path, None)
