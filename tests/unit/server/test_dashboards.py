"""Grafana's dashboards are what the code makes, and they and the alerts name only metrics and events that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.unit.server.exported_metrics import exported_families, exported_names
from tools.dashboards import DASHBOARDS, DIRECTORY, files, model

pytestmark = pytest.mark.unit

RULES: Final = DIRECTORY.parent / "prometheus"
EVENTS: Final = DIRECTORY.parents[1] / "docs" / "EVENTS.md"
NAME: Final = re.compile(r"\bbmq_[a-z0-9_]+\b")
OF_PROMETHEUS: Final = {"up", "process_resident_memory_bytes", "process_cpu_seconds_total"}


def queries() -> list[str]:
    panels: list[dict[str, Any]] = [panel for one in DASHBOARDS for panel in model(one)["panels"]]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def rules() -> list[dict[str, Any]]:
    text = (RULES / "bmq.rules.yml").read_text(encoding="utf-8")
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def test_the_files_are_current() -> None:
    assert {path.name for path in DIRECTORY.glob("*.json")} == {path.name for path in files()}
    for path, text in files().items():
        assert path.read_text(encoding="utf-8") == text, "run make dashboards"
        assert json.loads(text)["uid"] == path.stem


def test_every_metric_of_a_plot_or_an_alert_is_exported() -> None:
    exported = exported_names(exported_families())
    used = [*queries(), *(rule["expr"] for rule in rules())]
    named = {name for query in used for name in NAME.findall(query)}
    assert len(named) > 40
    assert named - exported == set()


def test_every_query_reads_a_metric_and_has_the_chosen_nodes() -> None:
    for query in queries():
        assert NAME.search(query) or any(name in query for name in OF_PROMETHEUS), query
        assert query.count("{") == query.count('{job=~"$job", instance=~"$instance"'), query
        assert query.count("(") == query.count(")"), query


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    for dashboard in DASHBOARDS:
        panels = model(dashboard)["panels"]
        assert len({panel["id"] for panel in panels}) == len(panels)
        taken: set[tuple[int, int]] = set()
        for panel in panels:
            place = panel["gridPos"]
            cells = {
                (x, y)
                for x in range(place["x"], place["x"] + place["w"])
                for y in range(place["y"], place["y"] + place["h"])
            }
            assert not cells & taken, panel["title"]
            assert max(x for x, _ in cells) < 24
            taken |= cells


def test_events_that_alerts_name_are_logged() -> None:
    listed = set(re.findall(r"^- \*\*`([a-z_]+)`\*\*", EVENTS.read_text(encoding="utf-8"), re.MULTILINE))
    named: set[str] = set()
    for rule in rules():
        for pattern in re.findall(r'event=~?"([^"]+)"', rule["expr"]):
            named.update(pattern.split("|"))
        named.update(re.findall(r"log line ([a-z_]+)", rule["annotations"]["description"]))
    assert len(named) > 5
    assert named - listed == set()


def test_every_alert_has_a_test_and_says_what_to_do() -> None:
    tested = yaml.safe_load((RULES / "bmq.rules_test.yml").read_text(encoding="utf-8"))["tests"]
    fired = {one["alertname"] for test in tested for one in test["alert_rule_test"] if one["exp_alerts"]}
    assert {rule["alert"] for rule in rules()} == fired
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        for text in rule["annotations"].values():
            assert text.endswith("."), text


def test_the_rules_lie_where_the_page_says() -> None:
    page = (Path(EVENTS).parent / "OPERATIONS.md").read_text(encoding="utf-8")
    for path in ("deploy/prometheus/bmq.rules.yml", "deploy/grafana"):
        assert f"`{path}`" in page
