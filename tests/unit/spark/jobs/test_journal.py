"""What a job has done is found again, and nobody else's."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.spark.jobs.journal import Journal
from bmq.spark.jobs.outcome import JobFailed
from bmq.spark.jobs.ranges import OffsetRange
from bmq.spark.jobs.steps import SilentProgress, run_steps

pytestmark = pytest.mark.unit


def fail() -> None:
    raise AssertionError("the plan is not made a second time")


def test_the_first_plan_stays(tmp_path: Path) -> None:
    assert Journal(tmp_path / "state").begin({"job": "x"}, lambda: [1, 2]) == [1, 2]
    assert Journal(tmp_path / "state").begin({"job": "x"}, fail) == [1, 2]


def test_another_job_is_refused_and_told_what_differs(tmp_path: Path) -> None:
    Journal(tmp_path).begin({"job": "x", "topics": ["a"]}, lambda: 0)
    with pytest.raises(JobFailed, match="a job with another topics"):
        Journal(tmp_path).begin({"job": "x", "topics": ["b"]}, fail)


def test_steps_that_ended_are_not_done_again(tmp_path: Path) -> None:
    steps = [(OffsetRange("t", 0, 0, 5),), (OffsetRange("t", 0, 5, 9),), (OffsetRange("t", 0, 9, 10),)]
    done: list[int] = []

    def perform(step: tuple[OffsetRange, ...]) -> int:
        done.append(step[0].start_offset)
        if step[0].start_offset == 9 and len(done) == 3:
            raise KeyboardInterrupt
        return step[0].end_offset

    def run() -> list[int]:
        journal = Journal(tmp_path)
        journal.begin({}, lambda: 0)
        return list(run_steps(steps, perform, journal, SilentProgress(), size_of=len, unit="steps"))

    with pytest.raises(KeyboardInterrupt):
        run()
    assert run() == [5, 9, 10]
    assert done == [0, 5, 9, 9]


def test_without_a_directory_nothing_is_kept() -> None:
    journal = Journal(None)
    assert journal.begin({}, lambda: 7) == 7
    journal.record(0, "x")
    assert journal.result(0) == "x"
    assert Journal(None).result(0) is None


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{")
    with pytest.raises(JobFailed, match="cannot be read"):
        Journal(tmp_path).begin({}, fail)


@pytest.mark.parametrize("text", ["{}", "[]", "7", '{"asked": [], "plan": 0}', '{"asked": {}}'])
def test_a_plan_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(JobFailed, match=r"plan.json is no plan of a job"):
        Journal(tmp_path).begin({}, fail)


@pytest.mark.parametrize("text", ["{}", "[]", "7"])
def test_a_result_of_something_else_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "step-000000.json").write_text(text)
    with pytest.raises(JobFailed, match=r"step-000000.json is no result of a step"):
        Journal(tmp_path).result(0)


def test_results_of_an_earlier_plan_count_for_nothing(tmp_path: Path) -> None:
    """Of a damaged plan we say ourselves that it may be removed."""
    first = Journal(tmp_path)
    first.begin({}, lambda: "0 to 5")
    first.record(0, "five records")
    (tmp_path / "plan.json").unlink()
    second = Journal(tmp_path)
    assert second.begin({}, lambda: "0 to 9") == "0 to 9"
    assert second.result(0) is None
    second.record(0, "nine records")
    third = Journal(tmp_path)
    third.begin({}, fail)
    assert third.result(0) == "nine records"


def test_a_draft_counts_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "step-000000.json.draft").write_text('{"result": 1}')
    assert Journal(tmp_path).result(0) is None


@pytest.mark.parametrize("name", ["plan.json", "step-000000.json"])
def test_a_file_that_cannot_be_written_is_one_sentence(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.draft").mkdir()

    def run() -> None:
        journal = Journal(tmp_path)
        journal.begin({}, lambda: 0)
        journal.record(0, "x")

    with pytest.raises(JobFailed, match=f"{name} cannot be written"):
        run()


def test_a_directory_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JobFailed, match="cannot be used"):
        Journal(tmp_path / "file" / "state").begin({}, fail)
