"""The version of this server as a metric."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from importlib.metadata import version

from prometheus_client.core import InfoMetricFamily, Metric
from prometheus_client.registry import Collector


class BuildInfo(Collector):
    """`bmq_build_info`: always 1, with the versions of bmq and of Python as labels."""

    def __init__(self) -> None:
        self._labels = {"version": version("bmq"), "python": platform.python_version()}

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("bmq_build", "Version of this server.", value=self._labels)
