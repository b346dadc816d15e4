"""The README's figures are what the command makes of the results files, with what falls short in front."""

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
from bench.readme import BEGIN, CHAPTERS, END, README, Unfit, chapter, figures, fit, read_results, with_figures
from bench.runner import Bench
from bench.spark.__main__ import BENCH as SPARK
from bench.standalone.__main__ import BENCH as STANDALONE
from bench.table import table
from bench.topics.__main__ import BENCH as TOPICS

pytestmark = pytest.mark.unit

BENCHES = {bench.name: bench for bench in (STANDALONE, HDFS, CLUSTER, LOADS, GROUPS, SPARK, TOPICS, CORE)}
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


def test_the_readme_is_what_the_command_makes() -> None:
    readme = README.read_text()
    assert with_figures(readme, read_results()) == readme


@pytest.mark.parametrize("readme", ["", BEGIN, f"{END}{BEGIN}"])
def test_a_readme_without_the_markers_is_refused(readme: str) -> None:
    with pytest.raises(Unfit, match="does not have the lines"):
        with_figures(readme, read_results())


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
    assert "- bad: 1.5 s, at most 1 was asked for" in in_front
    assert "- slow: over 40 s, at most 1 was asked for" in in_front
    assert "- gone; lost (kafka: no Java)" in in_front
    assert "What was asked for (1 of 5 hold):" in in_front
    assert not any("good" in line for line in in_front)
    assert "| good, s | 0.5 | 2 |  | at most 1 | holds |" in lines
    assert "| bad, s | 1.5 | 2 |  | at most 1 | **does not hold** |" in lines
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
