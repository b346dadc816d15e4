"""A picture of a stats report: bytes by hour and partition, which shows skew."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bmq.extras import install_command
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.stats_report import HOUR_MS, Counts, StatsReport
from bmq.spark.jobs.time_text import text_of

_HOURS_MAX: Final = 24 * 31
_INCHES: Final = (10.0, 3.2)
_LABELS_MAX: Final = 12
_SUFFIXES: Final = frozenset({".png", ".svg", ".pdf"})


def draw(report: StatsReport, path: Path) -> None:
    """One panel per topic with records, at most the last 31 days.

    Raises JobFailed: no matplotlib, or the file cannot be written.
    """
    if path.suffix not in _SUFFIXES:
        raise JobFailed(f"a picture cannot be written to {path}: its name has to end in {', '.join(sorted(_SUFFIXES))}")
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise JobFailed(f"a picture needs matplotlib: {install_command('spark')}") from error
    topics = sorted({topic for (topic, _), _ in report.hours})
    width, height = _INCHES
    figure = Figure(figsize=(width, height * max(1, len(topics))), layout="constrained")
    all_axes = figure.subplots(max(1, len(topics)), squeeze=False)[:, 0]
    for axes, topic in zip(all_axes, topics, strict=False):
        partitions, hours, grid = bytes_grid(report, topic)
        picture = axes.imshow(grid, aspect="auto", interpolation="nearest", cmap="viridis", vmin=0)
        step = max(1, len(hours) // _LABELS_MAX)
        axes.set_xticks(
            range(0, len(hours), step), [text_of(hour * HOUR_MS)[5:13] for hour in hours[::step]], rotation=45
        )
        every = max(1, len(partitions) // _LABELS_MAX)
        axes.set_yticks(range(0, len(partitions), every), [str(partition) for partition in partitions[::every]])
        axes.set_ylabel("partition")
        axes.set_title(f"{topic}: bytes by hour (UTC); busiest partition {report.skew(topic):.2f} times the mean")
        figure.colorbar(picture, ax=axes, label="bytes")
    try:
        figure.savefig(path)
    except OSError as error:
        raise JobFailed(f"the picture {path} cannot be written: {error.strerror}") from error


def bytes_grid(report: StatsReport, topic: str) -> tuple[list[int], list[int], list[list[int]]]:
    """(partitions, hours, bytes of each partition in each hour). Hours without records between others are included."""
    partitions = sorted(partition for name, partition in report.partitions if name == topic)
    seen = sorted({hour for (name, _), hour in report.hours if name == topic})
    if not seen:
        return partitions, [], [[] for _ in partitions]
    hours = list(range(max(seen[0], seen[-1] - _HOURS_MAX + 1), seen[-1] + 1))
    empty = Counts()
    grid = [[report.hours.get(((topic, partition), hour), empty).bytes for hour in hours] for partition in partitions]
    return partitions, hours, grid
