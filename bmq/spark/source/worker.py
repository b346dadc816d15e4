"""Prepares Spark's Python workers for our code, on the driver and on executors."""

from __future__ import annotations

import logging
import re
import sys
from pathlib import PurePath
from typing import Final
from zipimport import zipimporter

import structlog

_ARCHIVES: Final = re.compile(r"pyspark\.zip|py4j-.*-src\.zip|spark-core_.*\.jar")
"""The archives that Spark puts on a worker's path; they do not change while it runs."""


def prepare_worker() -> None:
    """Call before each piece of work; it changes nothing outside this process."""
    quiet_logs()
    forget_archives()


def quiet_logs() -> None:
    """Log warnings to standard error, the log of Spark's workers, unless the program has configured logging."""
    if not structlog.is_configured():
        structlog.configure(
            wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
            logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        )


def forget_archives() -> None:
    """Drop Python's finders for Spark's own archives; Python recreates them without reading anything when it needs
    them.

    Spark calls importlib.invalidate_caches before each task and each planning step. Then every finder of an archive
    reads the archive's whole directory: one finder per package imported from it, a tenth of a second in all.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and _ARCHIVES.fullmatch(PurePath(finder.archive).name):
            sys.path_importer_cache.pop(path, None)
