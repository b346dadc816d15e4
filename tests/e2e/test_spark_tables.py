"""Tables of topics in Iceberg: each record once, whatever dies, expires, is altered or competes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from testing.patience import Patience
from testing.processes import REPOSITORY, ManagedProcess, dying_with_us
from testing.servers import Server
from testing.table_topics import SUBMIT_ARGUMENTS, order, produce, table_command
from tests.e2e.conftest import create_topic, unique_name
from tests.support.spark import SPARK_ENVIRONMENT

pytestmark = [pytest.mark.campaign("spark-tables"), pytest.mark.timeout(1_000)]

GOOD, KILLS, OFFSETS_PER_TRIGGER, PARTITIONS = 3_000, 3, 100, 2
BAD: list[bytes | None] = [b"no JSON", b'{"id":"x"}', b'{"customer":{}}', None]
ENVIRONMENT = {**SPARK_ENVIRONMENT, "PYSPARK_SUBMIT_ARGS": SUBMIT_ARGUMENTS, "TZ": "UTC"}


@pytest.fixture(scope="module")
def values() -> list[bytes | None]:
    """Every record of the topic in order: at each fiftieth place one that does not fit."""
    found: list[bytes | None] = []
    for number in range(GOOD):
        if number % 50 == 0:
            found.append(BAD[number // 50 % len(BAD)])
        found.append(order(number))
    return found


@pytest.fixture(scope="module")
def result(
    shared_server: Server, values: list[bytes | None], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Any]]:
    """A job killed again and again, and then all that one session can show after it."""
    directory = tmp_path_factory.mktemp("tables")
    topic = unique_name("orders")
    for name in (topic, f"{topic}-other"):
        create_topic(shared_server, name, PARTITIONS)
    produce(shared_server.bootstrap, topic, values, PARTITIONS)
    run_and_kill(shared_server, directory, topic)
    done = subprocess.run(
        dying_with_us(
            [sys.executable, "-m", "tests.e2e.spark_tables_job", str(directory), shared_server.bootstrap, topic]
        ),
        capture_output=True,
        text=True,
        timeout=Patience(700).limit_s,
        check=False,
        cwd=REPOSITORY,
        env={**os.environ, **ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr[-8_000:]
    yield json.loads(done.stdout.splitlines()[-1])


def run_and_kill(server: Server, directory: Path, topic: str) -> None:
    pace = ("--trigger-s", "0.05", "--max-offsets-per-trigger", str(OFFSETS_PER_TRIGGER), "--merge-every", "3")
    command = table_command(server.bootstrap, topic, directory, *pace)
    chance = random.Random(4)
    for kill in range(KILLS):
        job = ManagedProcess("table job", command, directory / f"job-{kill}.log", ENVIRONMENT)
        job.start()
        # Somewhere within the batches that follow the first.
        job.wait_for_line(rf"(?s)(\"batch\":\d+.*){{{chance.randint(1, 2)}}}", 240)
        os.killpg(job.pid, signal.SIGKILL)
        job.kill()


def test_each_record_is_in_the_table_or_a_dead_letter_once(result: dict[str, Any], values: list[bytes | None]) -> None:
    finish = result["finish"]
    assert finish["ids"] == list(range(GOOD))
    places = [[number % PARTITIONS, number // PARTITIONS] for number in range(len(values))]
    dead = sorted(place for place, value in zip(places, values, strict=True) if value in BAD)
    assert [row[:2] for row in finish["dead"]] == dead
    assert sorted([*finish["rows"], *dead]) == sorted(places)
    assert finish["lag"] == 0


def test_a_dead_letter_has_its_bytes_and_a_reason(result: dict[str, Any]) -> None:
    reasons = {
        "no JSON": "the value is no JSON object with the paths of the table",
        '{"id":"x"}': "field id: x is no long",
        '{"customer":{}}': "field id is missing",
        None: "the value is null",
    }
    finish = result["finish"]
    found = {value: reason for value, (_, _, reason) in zip(finish["bytes"], finish["dead"], strict=True)}
    assert found == reasons


def test_its_files_are_read_without_spark_and_bmq(result: dict[str, Any]) -> None:
    """As they were written, and after files were merged and snapshots expired."""
    assert result["finish"]["by_pyarrow"] == GOOD
    whole = [GOOD, GOOD, GOOD * (GOOD - 1) // 2]
    assert result["finish"]["by_duckdb"] == result["replay"]["by_duckdb"] == whole


def test_a_batch_is_known_again_after_its_snapshot_is_gone(result: dict[str, Any]) -> None:
    replay = result["replay"]
    assert replay["snapshots"] == 1
    assert replay["files"][1] < replay["files"][0]
    assert replay["replays"] == [True]
    assert replay["after"] == replay["before"]


def test_a_column_is_added_and_files_are_merged_while_the_job_runs(result: dict[str, Any]) -> None:
    alter = result["alter"]
    assert (alter["merged"], alter["notes"]) == (True, 10)
    assert alter["of the new partition"] == 3, "of eleven orders over three partitions, and one is a dead letter"
    assert alter["reasons"] == ["field note: seven is no int"]
    assert alter["by_duckdb"][:2] == [GOOD + 20, GOOD + 20], "files with the new column beside files without it"


def test_columns_are_added_to_a_table_that_others_commit_to(result: dict[str, Any]) -> None:
    assert result["add_columns_beside_commits"] == ["id", *(f"more_{number}" for number in range(10))]


def test_a_new_checkpoint_goes_on_from_the_table(result: dict[str, Any]) -> None:
    found = result["new_checkpoint"]
    assert "is written by the job with checkpoint" in found["refused"]
    assert (found["added"], found["doubled"]) == (20, 0)
    assert "is written by the job with checkpoint" in found["first_again"]
    assert "is of topic" in found["other_topic"]


def test_of_two_jobs_one_stops_and_no_row_is_doubled(result: dict[str, Any]) -> None:
    rivals = result["rivals"]
    (lost,) = rivals["lost"]
    assert "was taken over by the job with checkpoint" in lost
    assert (rivals["added"], rivals["doubled"]) == (210, 0)


def test_a_misfit_stops_a_table_that_takes_none(result: dict[str, Any]) -> None:
    found = result["stop_at_misfits"]
    assert "partition 0, offset 0: the value is no JSON object" in found["refused"]
    assert found["rows"] == 0


def test_a_topic_made_again_is_not_written_into_the_table_of_the_first(result: dict[str, Any]) -> None:
    again = result["topic_made_again"]
    assert "was deleted and made again" in again["refused"]
    assert again["rows"] == 20


def test_a_table_that_was_rolled_back_is_refused_until_somebody_says_what_holds(result: dict[str, Any]) -> None:
    found = result["rolled_back"]
    assert found["refused"].startswith("the offsets of table orders count what was written up to snapshot LAST, ")
    assert "\n" not in found["refused"]
    assert found["gone"], "the rollback removed rows"
    assert (found["undone"], found["accepted"], found["doubled"]) == (5, 7, 0), "5 rows came back and went again"


def test_what_cannot_be_begun_is_one_sentence(result: dict[str, Any]) -> None:
    refusals = result["refusals"]
    for name in ("warehouse", "file system", "source"):
        assert refusals[name].startswith("table nowhere cannot be begun: "), refusals[name]
    assert "has a catalog bmq already, with warehouse " in refusals["another warehouse"]
    assert "no.such.format" in refusals["source"]
    assert "nosuch" in refusals["file system"]
    assert refusals["topic"].startswith("topic no-such-topic cannot be asked for: ")
    assert all("\n" not in sentence for sentence in refusals.values())


def test_the_examples_of_the_documentation_run(result: dict[str, Any]) -> None:
    assert result["examples"] == {"blocks": 2, "by_spark": 20, "by_pyiceberg": 20, "by_pyarrow": 20, "by_duckdb": 20}


def test_a_value_is_parsed_once_and_as_text_where_it_does_not_fit(result: dict[str, Any]) -> None:
    """Spark may compute a column anew wherever it is named; then a value is parsed up to twenty times."""
    assert result["parses"] == 2


def test_values_of_all_formats(result: dict[str, Any]) -> None:
    no_object = ["the value is no JSON object with the paths of the table"]
    assert result["formats"]["json"] == [
        [1, "12.50", "2026-11-24", "2026-11-24T01:02:03", True, '{"leaf":4}', 4, "b"],
        [2, None, None, None, None, None, None, "b"],
        no_object,
        no_object,
        no_object,
        no_object,
        ["the value is null"],
        ["field id: 5 is no long"],
        ["field day: tomorrow is no date"],
        ["the value is no UTF-8"],
        ["field id is missing"],
        ["field id: 9223372036854775808 is no long"],
        ["field at: 1700000000 is no timestamp"],
        no_object,
        ["field at: 12:30 is no timestamp"],
        ["field day: +12345-01-01 is no date"],
    ]
    no_frame = ["the value has no schema id before its JSON"]
    assert result["formats"]["framed json"] == [
        [1, "hi"],
        [2, None],
        no_frame,
        no_frame,
        no_object,
        no_object,
        ["the value is no UTF-8"],
        ["field id: x is no long"],
        ["the value is null"],
    ]
    unreadable = ["the value is no Avro record of the table's schema"]
    assert result["formats"]["avro"] == [
        [7, "hi"],
        [None, None],
        unreadable,
        unreadable,
        ["the value is null"],
        [7, None, None],
        [7, "hi", 3],
        ["the value has no schema id before its Avro record"],
        ["the table has no schema with id 9"],
        unreadable,
    ]
    moment, as_micros = "2023-11-14T22:13:20.123000", "1970-01-20T16:13:20.000123"
    assert result["formats"]["avro_times"] == [
        [1_700_000_000_123, moment, moment],
        [1_700_000_000_123, moment, moment],
        [1_700_000_000_123, moment, as_micros],
    ]
    assert result["formats"]["protobuf"] == [
        [7, -3, "2026-11-24T01:02:03", "Ada"],
        [0, 0, None, None],
        ["the value is no message shop.Order"],
        ["the value is null"],
        [7, -3, "2026-11-24T01:02:03", "Ada"],
        [7, -3, "2026-11-24T01:02:03", "Ada"],
        ["the value is another message of the schema with id 9"],
        ["the table has no schema with id 8"],
        ["the value has no schema id before its Protobuf message"],
    ]
    assert result["formats"]["raw"] == [["x", 0, "b"], [None, 0, "b"], ["field value is no UTF-8"]]
    assert result["formats"]["upserts"] == [
        ["upsert", "k", 1],
        ["delete", "k", None],
        no_object,
        ["field id: x is no long"],
        ["field id is missing"],
        no_object,
        ["upsert", "k", 1],
        ["the value is null"],
    ]
    missing = ["field id is missing"]
    assert result["formats"]["envelopes"] == [
        ["upsert", 1, "Bern"],
        ["upsert", 1, None],
        ["upsert", 2, "Ulm"],
        ["delete", 1, None],
        ["nothing", None, None],
        ["the envelope's op is t, none of c, u, r, d"],
        ["the envelope has no op"],
        missing,
        missing,
        ["field id: x is no long"],
        ["field before.id: x is no long"],
        no_object,
        ["upsert", 7, "hi"],
        ["delete", 7, None],
        missing,
        ["nothing", None, None],
    ]
