"""Pages of figures, and the README's, are what the command makes of the results files, missed targets in front."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench.cluster.__main__ import BENCH as CLUSTER
from bench.core.__main__ import BENCH as CORE
from bench.groups.__main__ import BENCH as GROUPS
from bench.hdfs.__main__ import BENCH as HDFS
from bench.loads.__main__ import BENCH as LOADS
from bench.queues.__main__ import BENCH as QUEUES
from bench.readme import (
    BEGIN,
    CELL_CHARACTERS_MAX,
    CHAPTERS,
    END,
    HIGHLIGHTS,
    OVERVIEW,
    PAGES,
    README,
    Unfit,
    chapter,
    figures,
    files_made,
    fit,
    highlights,
    index,
    read_results,
    with_block,
)
from bench.runner import Bench
from bench.secure_hdfs.__main__ import BENCH as SECURE_HDFS
from bench.security.__main__ import BENCH as SECURITY
from bench.spark.__main__ import BENCH as SPARK
from bench.standalone.__main__ import BENCH as STANDALONE
from bench.table import table
from bench.topics.__main__ import BENCH as TOPICS

pytestmark = pytest.mark.campaign("unit")

BENCHES = {
    bench.name: bench
    for bench in (STANDALONE, HDFS, SECURE_HDFS, CLUSTER, LOADS, GROUPS, SPARK, TOPICS, SECURITY, QUEUES, CORE)
}
MACHINE = {"cpu_model": "EPYC", "cpu_count": 2, "memory_gib": 24.0, "kernel": "6.1", "file_system": "ext4"}


def criterion(name: str, value: float | None, **more: Any) -> dict[str, Any]:
    verdict = {"op": "<=", "bound": 1, "holds": value is not None and value <= 1}
    return {"id": name, "part": "move", "what": name, "unit": "s", "value": value, "rival": 2.0, **verdict, **more}


def result_of(*criteria: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "format": 2,
        "size": "full",
        "date": "2026-01-02T03:04:05+00:00",
        "revision": "abc",
        "machine": MACHINE,
        "versions": {"java": 'openjdk version "17.0.1" 2020-01-01', "kafka": "4.3.0"},
        "settings": [{"of": "bmq", "what": "heap", "value": "1", "default": "2", "measured": "throughput"}],
        "parts": {"move": {}},
        "measured": {"move": {"date": "2026-01-02T03:04:05+00:00", "revision": "abc", "machine": MACHINE}},
        "criteria": list(criteria),
        "reported": [],
        **more,
    }


def lines_of(result: dict[str, Any]) -> list[str]:
    return list(chapter("standalone", result))


def test_every_chapter_has_its_benchmark_and_the_first_are_measured() -> None:
    assert set(BENCHES) == set(CHAPTERS)
    assert {"standalone", "hdfs", "cluster"} <= set(read_results()) <= set(CHAPTERS)


def test_a_chapter_that_was_not_measured_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "hdfs.json").write_text(json.dumps(result_of()))
    assert list(read_results(tmp_path)) == ["hdfs"]


@pytest.mark.parametrize("name", read_results())
def test_the_verdicts_in_the_results_are_those_of_their_samples(name: str) -> None:
    bench: Bench = BENCHES[name]
    result = read_results()[name]
    assert {key: result[key] for key in ("criteria", "reported")} == bench.judge(result)
    assert len(table(result).splitlines()) == len(result["criteria"]) + len(result["reported"]) + 3


def test_every_file_is_what_the_command_makes() -> None:
    made = files_made(read_results(), README.read_text(), OVERVIEW.read_text())
    assert set(made) == {README, OVERVIEW, *(PAGES / f"{name}.md" for name in read_results())}
    assert {file.name: file.read_text() == text for file, text in made.items()} == dict.fromkeys(
        (file.name for file in made), True
    )


def test_no_page_is_left_of_a_benchmark_that_is_gone() -> None:
    assert {file.stem for file in PAGES.glob("*.md")} == {"README", *read_results()}


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}{BEGIN}"])
def test_a_file_without_the_markers_is_refused(text: str) -> None:
    with pytest.raises(Unfit, match="does not have the lines"):
        with_block(text, ["a"])


def test_only_what_stands_between_the_markers_is_replaced() -> None:
    assert with_block(f"a\n{BEGIN}\nold\n{END}\nb\n", ["new", "lines"]) == f"a\n{BEGIN}\nnew\nlines\n{END}\nb\n"


def test_the_readme_shows_three_figures_that_were_measured() -> None:
    results = read_results()
    table = list(highlights(results))
    assert len(table) == 2 + len(HIGHLIGHTS) == 5
    for (name, criterion_id, title), row in zip(HIGHLIGHTS, table[2:], strict=True):
        one = next(one for one in results[name]["criteria"] if one["id"] == criterion_id)
        assert row.startswith(f"| {title} |")
        assert f"{one['spread'][0]:.2f} / {one['value']:.2f} / {one['spread'][2]:.2f}" in row
        assert f"(docs/benchmarks/{name}.md)" in row


def test_a_figure_that_was_not_measured_has_no_row_in_the_readme() -> None:
    gone = criterion(HIGHLIGHTS[0][1], None, reason="not measured: x")
    assert len(list(highlights({HIGHLIGHTS[0][0]: result_of(gone)}))) == 2


def test_the_overview_links_each_page_with_its_verdict() -> None:
    table = list(index({"hdfs": result_of(criterion("good", 0.5), criterion("bad", 1.5))}))
    assert table[2:] == ["| [The HDFS client](hdfs.md) | 1 of 2 met | 2026-01-02 | abc |"]


def test_a_cell_that_is_too_long_becomes_a_note_below_the_table() -> None:
    long = "x" * (CELL_CHARACTERS_MAX + 1)
    one = {"what": "a", "unit": "", "value": 1.0, "rival": 2.0, "reason": long}
    other = {**one, "what": "b", "reason": long[:-1]}
    lines = lines_of(result_of(reported=[one, {**one, "what": "c"}, other]))
    assert "| a | 1 | 2 |  |  | note 1 |" in lines
    assert "| c | 1 | 2 |  |  | note 1 |" in lines
    assert f"| b | 1 | 2 |  |  | {long[:-1]} |" in lines
    assert lines.count(f"1. {long}") == 1


@pytest.mark.parametrize("change", [{"size": "smoke"}, {"interrupted": True}, {"format": 1}])
def test_results_of_less_than_a_whole_run_are_refused(change: dict[str, Any]) -> None:
    assert fit("cluster", result_of())["size"] == "full"
    with pytest.raises(Unfit, match="whole run"):
        fit("cluster", result_of(**change))


def test_what_falls_short_and_what_was_not_measured_stand_in_front_of_the_tables() -> None:
    lines = lines_of(
        result_of(
            criterion("good", 0.5),
            criterion("bad", 1.5),
            criterion("slow", 40.0, value_at_least=True),
            criterion("gone", None, reason="not measured: kafka: no Java\nat line 3"),
            criterion("lost", None, reason="not measured: kafka: no Java\nat line 3"),
        )
    )
    first_table = next(number for number, line in enumerate(lines) if line.startswith("|"))
    in_front = lines[:first_table]
    assert "- bad: 1.5 s; target: at most 1" in in_front
    assert "- slow: over 40 s; target: at most 1" in in_front
    assert "- gone; lost (kafka: no Java)" in in_front
    assert "## Targets (1 of 5 met)" in in_front
    assert not any("good" in line for line in in_front)
    assert "| good, s | 0.5 | 2 |  | at most 1 | met |" in lines
    assert "| bad, s | 1.5 | 2 |  | at most 1 | **missed** |" in lines
    assert "| gone, s |  | 2 |  | at most 1 | not measured |" in lines


def test_a_ratio_that_is_not_measured_shows_no_figure() -> None:
    ratio = {"what": "a", "unit": "", "value": None, "medians": {"bmq": 9, "rival": 1}, "spread": [9.0, 9.0, 9.0]}
    assert figures(ratio) == ("", "", "")
    assert figures({**ratio, "value": 9.0}) == ("9", "1", "9.00 / 9.00 / 9.00")


def test_parts_of_another_run_are_named_with_their_revision() -> None:
    other = {"date": "2026-02-03T00:00:00+00:00", "revision": "abd", "machine": {**MACHINE, "cpu_count": 4}}
    lines = lines_of(result_of(measured={"move": other}))
    assert (
        "Not from that run: move (measured on 2026-02-03, revision abd, on EPYC (4 cores, 24 GiB, Linux 6.1, ext4))."
        in lines
    )
    assert not any(line.startswith("Not from") for line in lines_of(result_of()))


def test_what_is_set_stands_beside_the_figures() -> None:
    lines = lines_of(result_of())
    assert "| bmq | heap | 1 | 2 | throughput |" in lines
    assert any("revision abc" in line and "java 17.0.1, kafka 4.3.0" in line for line in lines)
