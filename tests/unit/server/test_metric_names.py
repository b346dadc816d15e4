"""Names on /metrics follow Prometheus: suffixes mean what they say, and units are base units."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

import bmq
from bmq.controller.metrics import ActiveControllerMetrics, ControllerMetrics
from bmq.metadata.image import MetadataImage
from tests.unit.server.exported_metrics import exported_families

pytestmark = pytest.mark.unit

# https://prometheus.io/docs/practices/naming and the suffixes that OpenMetrics reserves.
RESERVED: Final = ("_count", "_sum", "_bucket", "_total", "_info", "_created", "_gauge", "_counter")
NOT_BASE_UNITS: Final = re.compile(
    r"_(ms|us|ns|milliseconds|microseconds|nanoseconds|minutes|hours|days|kb|mb|gb|kib|mib|gib|kilobytes|megabytes|bits"
    r"|percent|per_s|s)(_|$)"
)
DOCUMENTED: Final = Path(bmq.__file__).parents[1] / "docs" / "OPERATIONS.md"


@pytest.fixture(scope="module")
def families() -> list[Metric]:
    """What a standalone server exports, and what only nodes do."""
    return exported_families()


def test_a_suffix_says_what_a_metric_is(families: list[Metric]) -> None:
    for family in families:
        assert family.name.startswith("bmq_")
        assert not family.name.endswith(RESERVED), f"{family.type} {family.name}"
        assert family.type in ("counter", "gauge", "histogram", "info")
        assert family.documentation.endswith("."), family.name


def test_units_are_base_units(families: list[Metric]) -> None:
    for family in families:
        assert not NOT_BASE_UNITS.search(family.name), family.name
        if family.type == "histogram":
            assert family.name.endswith(("_seconds", "_bytes")), family.name


def test_a_name_means_one_thing(families: list[Metric]) -> None:
    kinds: dict[str, str] = {}
    for family in families:
        assert kinds.setdefault(family.name, family.type) == family.type


def test_every_name_in_the_code_was_looked_at(families: list[Metric]) -> None:
    names = {family.name for family in families}
    named_in_code: set[str] = set()
    for module in Path(bmq.__file__).parent.rglob("*.py"):
        text = module.read_text()
        if "MetricFamily" in text:
            named_in_code |= set(re.findall(r'"(bmq_[a-z0-9_]+)"', text))
    assert named_in_code - names == set()


def test_documented_names_exist(families: list[Metric]) -> None:
    suffixes = {"counter": "_total", "info": "_info"}
    exported = {family.name + suffixes.get(family.type, "") for family in families}
    for name in re.findall(r"`(bmq_[a-z0-9_]+)[`{*]", DOCUMENTED.read_text()):
        assert any(each == name or (name.endswith("_") and each.startswith(name)) for each in exported), name


def test_a_node_exports_the_controller_only_where_it_is_active() -> None:
    active = ControllerMetrics(MetadataImage, lambda: True)
    here: list[ControllerMetrics] = []
    registry = CollectorRegistry()
    registry.register(ActiveControllerMetrics(lambda: here[0] if here else None))
    assert registry.get_sample_value("bmq_active_controllers") == 0
    assert registry.get_sample_value("bmq_topics") is None
    here.append(active)
    assert registry.get_sample_value("bmq_active_controllers") == 1
    assert registry.get_sample_value("bmq_topics") == 0
