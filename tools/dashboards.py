"""Grafana's dashboards -> deploy/grafana/*.json: `python -m tools.dashboards` (`--check` writes nothing).

A dashboard is a list of rows of plots; a plot is a title, a unit of Grafana, and PromQL with a legend. Grafana imports the files
as they are and asks for the data source.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

DIRECTORY: Final = Path(__file__).parents[1] / "deploy" / "grafana"
WIDTH: Final = 24
HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
CHOSEN: Final = 'job=~"$job", instance=~"$instance"'
"""Labels of the nodes that the reader has chosen; `@` in the queries below."""


@dataclass(frozen=True, slots=True)
class Plot:
    """`queries`: (PromQL, legend). `says`: what the plot tells, a sentence. `kind`: a type of panel of Grafana."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    says: str
    kind: str = "timeseries"


@dataclass(frozen=True, slots=True)
class Row:
    """Plots side by side, of equal width."""

    title: str
    plots: Sequence[Plot]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`name`: of its file, and its uid in Grafana."""

    name: str
    title: str
    rows: Sequence[Row]


def quantiles(histogram: str, labels: str = "") -> list[tuple[str, str]]:
    """p50 and p99 of a histogram, over all chosen nodes. `labels`: further ones, with a comma in front."""
    inner = f"sum by (le) (rate({histogram}_bucket{{@{labels}}}[$__rate_interval]))"
    return [(f"histogram_quantile({share}, {inner})", name) for share, name in ((0.5, "p50"), (0.99, "p99"))]


def rate(metric: str, by: str) -> str:
    """PromQL: the sum of a counter's rates by a label."""
    return f"sum by ({by}) (rate({metric}{{@}}[$__rate_interval]))"


CLUSTER: Final = Dashboard(
    "bmq-cluster",
    "bmq: cluster",
    (
        Row(
            "Health",
            (
                Plot("Nodes that answer", "short", [("sum(up{@})", "nodes")], "Scrapes that succeed.", "stat"),
                Plot(
                    "Active controllers",
                    "short",
                    [("sum(bmq_active_controllers{@})", "controllers")],
                    "One is right.",
                    "stat",
                ),
                Plot(
                    "Partitions that do not serve",
                    "short",
                    [('sum by (state) (bmq_partitions{@, state=~"offline|blocked"})', "{{state}}")],
                    "Offline ones need an operator, blocked ones room in the store.",
                    "stat",
                ),
                Plot(
                    "Versions", "short", [("count by (version) (bmq_build_info{@})", "{{version}}")], "Nodes.", "stat"
                ),
            ),
        ),
        Row(
            "Traffic",
            (
                Plot(
                    "Bytes in and out",
                    "Bps",
                    [
                        ("sum(rate(bmq_received_bytes_total{@}[$__rate_interval]))", "from clients"),
                        ("sum(rate(bmq_sent_bytes_total{@}[$__rate_interval]))", "to clients"),
                        ("sum(rate(bmq_appended_bytes_total{@}[$__rate_interval]))", "appended"),
                    ],
                    "Requests, answers, and record batches that became durable.",
                ),
                Plot("Requests", "reqps", [(rate("bmq_requests_total", "api"), "{{api}}")], "By API."),
                Plot(
                    "Error codes",
                    "reqps",
                    [(rate("bmq_errors_total", "api, error"), "{{api}} {{error}}")],
                    "Codes that were answered; some are ordinary, such as those of a partition that moves.",
                ),
            ),
        ),
        Row(
            "Latency",
            (
                Plot(
                    "Produce",
                    "s",
                    quantiles("bmq_request_seconds", ', api="produce"'),
                    "From a request's last byte to its answer.",
                ),
                Plot(
                    "Fetch",
                    "s",
                    quantiles("bmq_request_seconds", ', api="fetch"'),
                    "A fetch waits for records, so its time is most often the client's fetch.max.wait.ms.",
                ),
                Plot("Append to the store", "s", quantiles("bmq_store_append_seconds"), "Until a batch is durable."),
            ),
        ),
        Row(
            "Partitions and nodes",
            (
                Plot(
                    "Partitions by state",
                    "short",
                    [("sum by (state) (bmq_partitions{@})", "{{state}}")],
                    "Of all chosen nodes.",
                ),
                Plot(
                    "Partitions moved, fenced and started",
                    "short",
                    [
                        ("sum(increase(bmq_partitions_moved_total{@}[$__rate_interval]))", "moved by plan"),
                        ("sum(increase(bmq_partitions_fenced_total{@}[$__rate_interval]))", "lost to a newer owner"),
                        ("sum(increase(bmq_partition_starts_total{@}[$__rate_interval]))", "started"),
                    ],
                    "In each step of the plot.",
                ),
                Plot(
                    "Warnings and errors logged",
                    "short",
                    [
                        (
                            "topk(10, sum by (event, severity) (increase(bmq_log_events_total{@}[$__rate_interval])) > 0)",
                            "{{severity}} {{event}}",
                        )
                    ],
                    "docs/EVENTS.md lists all events.",
                ),
            ),
        ),
    ),
)

TOPICS: Final = Dashboard(
    "bmq-topics",
    "bmq: topics and groups",
    (
        Row(
            "Topics",
            (
                Plot(
                    "Bytes in",
                    "Bps",
                    [(f"topk(15, {rate('bmq_topic_in_bytes_total', 'topic')})", "{{topic}}")],
                    "Appended.",
                ),
                Plot(
                    "Records in",
                    "cps",
                    [(f"topk(15, {rate('bmq_topic_in_records_total', 'topic')})", "{{topic}}")],
                    "Offsets given to records and markers.",
                ),
                Plot(
                    "Bytes out of memory",
                    "Bps",
                    [(f"topk(15, {rate('bmq_topic_out_bytes_total', 'topic')})", "{{topic}}")],
                    "Without what proxies read from the store.",
                ),
            ),
        ),
        Row(
            "Logs",
            (
                Plot(
                    "Size",
                    "bytes",
                    [("topk(15, sum by (topic) (bmq_topic_log_bytes{@}))", "{{topic}}")],
                    "One replica.",
                ),
                Plot(
                    "Owned partitions",
                    "short",
                    [("sum by (instance) (bmq_topic_owned_partitions{@})", "{{instance}}")],
                    "By node.",
                ),
            ),
        ),
        Row(
            "Consumer groups",
            (
                Plot(
                    "Lag in records",
                    "short",
                    [("topk(15, sum by (group, topic) (bmq_group_lag_records{@}))", "{{group}} {{topic}}")],
                    "Records behind what the group has committed.",
                ),
                Plot(
                    "Lag in seconds",
                    "s",
                    [("topk(15, max by (group, topic) (bmq_group_lag_seconds{@}))", "{{group}} {{topic}}")],
                    "Age of the first record that is not committed.",
                ),
                Plot(
                    "Records consumed",
                    "cps",
                    [
                        (
                            "topk(15, clamp_min(sum by (group, topic) "
                            "(deriv(bmq_group_committed_offset{@}[$__rate_interval])), 0))",
                            "{{group}} {{topic}}",
                        )
                    ],
                    "Growth of the committed offsets.",
                ),
            ),
        ),
        Row(
            "Groups and queues",
            (
                Plot("Groups", "short", [("sum by (state) (bmq_groups{@})", "{{state}}")], "By state."),
                Plot(
                    "Rebalances",
                    "short",
                    [("sum(increase(bmq_group_rebalances_total{@}[$__rate_interval]))", "rebalances")],
                    "In each step of the plot.",
                ),
                Plot(
                    "Share groups: oldest record that is not done",
                    "s",
                    [("topk(15, max by (group) (bmq_share_group_oldest_unacknowledged_seconds{@}))", "{{group}}")],
                    "How long it has held the group's start offset.",
                ),
                Plot(
                    "Delayed records",
                    "short",
                    [
                        ("sum(bmq_delayed_records{@})", "waiting"),
                        ("max(bmq_delayed_overdue_seconds{@})", "overdue, seconds"),
                    ],
                    "Records that wait for their due time.",
                ),
            ),
        ),
    ),
)

STORE: Final = Dashboard(
    "bmq-store",
    "bmq: store and memory",
    (
        Row(
            "Store",
            (
                Plot(
                    "Appends",
                    "ops",
                    [(rate("bmq_store_appends_total", "instance"), "{{instance}}")],
                    "One carries all batches of a turn of the event loop.",
                ),
                Plot(
                    "Segments",
                    "short",
                    [
                        ("sum(increase(bmq_segment_rolls_total{@}[$__rate_interval]))", "opened"),
                        ("sum(increase(bmq_segment_mends_total{@}[$__rate_interval]))", "closed early: a writer broke"),
                        ("sum(increase(bmq_file_takeovers_total{@}[$__rate_interval]))", "closed for an earlier owner"),
                    ],
                    "In each step of the plot.",
                ),
                Plot(
                    "DataNodes left out",
                    "short",
                    [("max by (instance) (bmq_hdfs_bad_datanodes{@})", "{{instance}}")],
                    "After a failure, for a while.",
                ),
            ),
        ),
        Row(
            "Reads",
            (
                Plot(
                    "Where fetches read",
                    "Bps",
                    [
                        ("sum(rate(bmq_fetch_tail_bytes_total{@}[$__rate_interval]))", "memory"),
                        ("sum(rate(bmq_fetch_catch_up_bytes_total{@}[$__rate_interval]))", "read cache"),
                        ("sum(rate(bmq_fetch_store_bytes_total{@}[$__rate_interval]))", "store"),
                    ],
                    "A backlog is read from the store.",
                ),
                Plot(
                    "Reads from HDFS that failed over, or were hedged",
                    "ops",
                    [
                        ("sum(rate(bmq_hdfs_read_failovers_total{@}[$__rate_interval]))", "another replica"),
                        ("sum(rate(bmq_hdfs_hedged_reads_total{@}[$__rate_interval]))", "hedged"),
                        ("sum(rate(bmq_hdfs_checksum_errors_total{@}[$__rate_interval]))", "wrong checksum"),
                    ],
                    "Slow and damaged DataNodes.",
                ),
            ),
        ),
        Row(
            "Memory",
            (
                Plot(
                    "Caches",
                    "bytes",
                    [
                        ("sum by (instance) (bmq_tail_cache_bytes{@})", "{{instance}} tail"),
                        ("sum by (instance) (bmq_read_cache_bytes{@})", "{{instance}} read"),
                    ],
                    "Record batches in memory.",
                ),
                Plot(
                    "In flight",
                    "bytes",
                    [
                        ("sum by (instance) (bmq_append_in_flight_bytes{@})", "{{instance}} appends"),
                        ("sum by (instance) (bmq_fetch_response_bytes{@})", "{{instance}} answers"),
                    ],
                    "At the limit sockets are not read.",
                ),
                Plot(
                    "Process memory",
                    "bytes",
                    [("sum by (instance) (process_resident_memory_bytes{@})", "{{instance}}")],
                    "Resident.",
                ),
                Plot(
                    "Processor time",
                    "percentunit",
                    [("sum by (instance) (rate(process_cpu_seconds_total{@}[$__rate_interval]))", "{{instance}}")],
                    "1 is one processor; an event loop cannot use more.",
                ),
            ),
        ),
        Row(
            "Limits",
            (
                Plot(
                    "Reads paused",
                    "ops",
                    [(rate("bmq_reads_paused_total", "instance"), "{{instance}}")],
                    "Times a socket was not read because of a limit.",
                ),
                Plot(
                    "Backlog readers' limit",
                    "Bps",
                    [("min by (instance) (bmq_catch_up_limit_bytes_per_second{@})", "{{instance}}")],
                    "0: reads of a backlog are not limited.",
                ),
                Plot(
                    "Connections",
                    "short",
                    [("sum by (instance) (bmq_connections{@})", "{{instance}}")],
                    "Of clients.",
                ),
            ),
        ),
    ),
)

DASHBOARDS: Final = (CLUSTER, TOPICS, STORE)


def _variable(name: str, label: str) -> dict[str, Any]:
    filters = "" if name == "job" else '{job=~"$job"}'
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": f"label_values(bmq_build_info{filters}, {name})", "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "sort": 1,
    }


def _panel(plot: Plot, number: int, place: dict[str, int]) -> dict[str, Any]:
    is_plot = plot.kind == "timeseries"
    custom = {"lineWidth": 1, "fillOpacity": 8, "showPoints": "never"} if is_plot else {}
    return {
        "id": number,
        "type": plot.kind,
        "title": plot.title,
        "description": plot.says,
        "datasource": SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": plot.unit, "custom": custom}, "overrides": []},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom"},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
        if is_plot
        else {"reduceOptions": {"calcs": ["lastNotNull"]}, "textMode": "value_and_name"},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": query.replace("@", CHOSEN),
                "legendFormat": legend,
            }
            for place, (query, legend) in enumerate(plot.queries)
        ],
    }


def _panels(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in rows:
        number += 1
        line = {"h": 1, "w": WIDTH, "x": 0, "y": top}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": line, "panels": []}
        top += 1
        width = WIDTH // len(row.plots)
        for place, plot in enumerate(row.plots):
            number += 1
            yield _panel(plot, number, {"h": HEIGHT, "w": width, "x": place * width, "y": top})
        top += HEIGHT


def model(dashboard: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana's JSON model."""
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "tags": ["bmq"],
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "schemaVersion": 39,
        "time": {"from": "now-3h", "to": "now"},
        "timezone": "browser",
        "templating": {"list": [source, _variable("job", "Job"), _variable("instance", "Node")]},
        "panels": list(_panels(dashboard.rows)),
    }


def files() -> dict[Path, str]:
    """Each file's text by its path."""
    return {
        DIRECTORY / f"{dashboard.name}.json": json.dumps(model(dashboard), indent=1) + "\n" for dashboard in DASHBOARDS
    }


def main() -> int:
    """Write the files; with `--check`: 1 if one differs from what would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not current")
    is_check = parser.parse_args().check
    stale = [path for path, text in files().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        if is_check:
            print(f"{path.name} is not current: run python -m tools.dashboards", file=sys.stderr)
        else:
            path.write_text(files()[path], encoding="utf-8")
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    raise SystemExit(main())
