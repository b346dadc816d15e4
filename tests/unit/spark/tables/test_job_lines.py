"""What a job says, in each form, and what is read of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bmq.spark.tables.ending import Ending, ending_of
from bmq.spark.tables.errors import RecordsLost, TableJobError, TableMismatch, TableTaken
from bmq.spark.tables.job_lines import (
    ERROR_CHARACTERS_MAX,
    OutputForm,
    StateLine,
    batch_line,
    ended_line,
    running_line,
    state_of_line,
)
from bmq.spark.tables.progress import TableProgress
from bmq.table_definitions.definition import InvalidDefinition

pytestmark = pytest.mark.unit

PROGRESS = TableProgress(
    table="orders", topic="o", topic_id="t", batch=3, rows=10, dead_letters=2, files=1, table_rows=50, table_files=4,
    table_bytes=1_000, dead_letter_rows=2, next_offsets={0: 50}, end_offsets={0: 57}, snapshot_id=7, at_ms=1,
    duration_ms=1_250, is_replay=False,
)  # fmt: skip


def test_a_batch_in_each_form() -> None:
    assert json.loads(batch_line(OutputForm.JSON, PROGRESS))["lag"] == 7
    assert "10 rows, 3 keys deleted, 2 dead" in batch_line(OutputForm.TEXT, replace(PROGRESS, deletions=3))
    assert batch_line(OutputForm.STATES, PROGRESS).startswith('{"table"')
    assert batch_line(OutputForm.TEXT, PROGRESS) == (
        "orders: batch 3: 10 rows, 2 dead letters in 1.2 s; 50 rows in all, 7 records behind"
    )


def test_states_are_read_as_they_were_said() -> None:
    running = running_line(OutputForm.STATES, "orders", is_first=False)
    assert running is not None and state_of_line(running) == StateLine(None)
    for ending in Ending:
        said = ended_line(OutputForm.STATES, "orders", ending, 'a "quoted"\nsentence')
        assert said is not None and "\n" not in said
        assert state_of_line(said) == StateLine(ending, 'a "quoted"\nsentence')
    long = ended_line(OutputForm.STATES, "orders", Ending.FAILED, "x" * 10_000)
    assert long is not None and state_of_line(long) == StateLine(Ending.FAILED, "x" * ERROR_CHARACTERS_MAX)


def test_people_see_the_begin_and_the_end_once() -> None:
    assert running_line(OutputForm.TEXT, "orders", is_first=True) == "orders: running"
    assert running_line(OutputForm.TEXT, "orders", is_first=False) is None
    assert ended_line(OutputForm.TEXT, "orders", Ending.STOPPED, None) == "orders: stopped"
    assert ended_line(OutputForm.TEXT, "orders", Ending.FAILED, "it is on standard error") is None
    assert running_line(OutputForm.JSON, "orders", is_first=True) is None
    assert ended_line(OutputForm.JSON, "orders", Ending.STOPPED, None) is None


@pytest.mark.parametrize(
    "line", ["", "{}", '{"table":"orders"}', '{"state"', '{"state":"lost"}', '{"state":[]}', '{"state":1}', '{"state"]']
)
def test_every_other_line_is_no_state(line: str) -> None:
    assert state_of_line(line) is None


def test_an_error_that_is_no_text_is_left_out() -> None:
    assert state_of_line('{"state":"failed","error":{"a":1}}') == StateLine(Ending.FAILED, None)


@pytest.mark.parametrize(
    ("failure", "ending"),
    [
        (None, Ending.STOPPED),
        (TableJobError("HDFS is away"), Ending.FAILED),
        (ZeroDivisionError("a fault of ours"), Ending.FAILED),
        (OSError("no memory"), Ending.FAILED),
        (TableTaken("another job has it"), Ending.TAKEN),
        (TableMismatch("it is another table"), Ending.REFUSED),
        (RecordsLost("they were deleted"), Ending.REFUSED),
        (InvalidDefinition("fields: none"), Ending.REFUSED),
    ],
)
def test_how_a_job_ended(failure: Exception | None, ending: Ending) -> None:
    assert ending_of(failure) is ending
