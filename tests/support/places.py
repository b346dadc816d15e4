"""Where a test runs: in a stage of `make test`, by its marker, or in a part of `make campaign`.

    @pytest.mark.hurt                      # stage `hurt`
    @pytest.mark.campaign("hdfs-faults")   # that part of the campaign

The nearest marker counts: a function's over its module's. A test without one is an error at collection, so that none is run
nowhere. `--place hurt` and `--place campaign:hdfs-faults` run what belongs there, and import no file that has nothing of it: a
marker stands in the file of its test (tests/unit/support/test_places_of_files.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import pytest

STAGES: Final = ("unit", "simulation", "contract", "hurt", "clients", "faults", "spark")
PARTS: Final = (
    "soak",
    "hdfs-faults",
    "hdfs-secure",
    "zookeeper",
    "workers",
    "bench",
    "kafka",
    "kills",
    "spark-tables",
    "spark-jobs",
    "spark-cluster",
    "cluster",
    "browser",
    "kubernetes",
    "unit",
    "seeds",
)
CAMPAIGN: Final = "campaign"
PLACES: Final = (*STAGES, *(f"{CAMPAIGN}:{part}" for part in PARTS))


MARK_TEXT: Final = re.compile(rf"\bmark\.({'|'.join(STAGES)})\b|\bmark\.{CAMPAIGN}\(\"([a-z-]+)\"\)")


class NoPlace(Exception):
    """A test says nothing of where it is to run, or names a part that there is not."""


def place_of(marks: Iterable[pytest.Mark]) -> str:
    """`unit` or `campaign:soak`; `marks`: of a test, the nearest first. Raises NoPlace."""
    for mark in marks:
        if mark.name in STAGES:
            return mark.name
        if mark.name == CAMPAIGN:
            if len(mark.args) != 1 or mark.args[0] not in PARTS:
                raise NoPlace(f"campaign{mark.args!r} names none of its parts: {', '.join(PARTS)}")
            return f"{CAMPAIGN}:{mark.args[0]}"
    raise NoPlace(f"no marker says where it runs: {', '.join(STAGES)}, or campaign(part)")


def places_in(source: str) -> set[str]:
    """The places that the markers in a file's text name."""
    return {stage or f"{CAMPAIGN}:{part}" for stage, part in MARK_TEXT.findall(source)}


def is_left_out(file: Path, config: pytest.Config) -> bool:
    """Whether this file of tests has none of the wanted place. One that names no place is kept, so that its tests are errors."""
    wanted = config.getoption("--place")
    if wanted is None or not file.name.startswith("test_") or file.suffix != ".py":
        return False
    found = places_in(file.read_text())
    return bool(found) and wanted not in found


def add_option(parser: pytest.Parser) -> None:
    parser.addoption("--place", choices=PLACES, help="run the tests of this stage, or of campaign:PART, alone")


def keep_those_of_the_place(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Raises pytest.UsageError when a test has no place; in a worker of xdist, which cannot say so, it is kept, to fail."""
    wanted = config.getoption("--place")
    kept, left_out = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        try:
            is_kept = wanted in (None, place_of(item.iter_markers()))
        except NoPlace as error:
            if not hasattr(config, "workerinput"):
                raise pytest.UsageError(f"{item.nodeid}: {error}") from None
            is_kept = True
        (kept if is_kept else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


def fail_without_a_place(item: pytest.Item) -> None:
    try:
        place_of(item.iter_markers())
    except NoPlace as error:
        pytest.fail(f"{item.nodeid}: {error}", pytrace=False)
