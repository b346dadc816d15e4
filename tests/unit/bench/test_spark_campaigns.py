"""What the campaigns of bench/spark count and plan, without Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from bench.spark.campaign_faults import BACK_S, DELAY_S, CampaignStuck, Fault, Job, Victim, perform, plan_faults
from bench.spark.campaign_producer import Report, Tick, read_ticks, record_value, sent_at_ms
from bench.spark.mirror_campaign import Plan as MirrorPlan
from bench.spark.mirror_campaign import compare, ids_of
from bench.spark.resume_campaign import Outcome, entry
from bench.spark.table_campaign import Look, batches, lag_s
from bench.spark.table_campaign_reader import TableReader, count_ids

pytestmark = pytest.mark.campaign("unit")


def ids(*some: int) -> np.ndarray:
    return np.array(some, dtype=np.int64)


# -- Lost or doubled ---------------------------------------------------------------------------------------------------


def test_each_record_once_is_nothing_lost_or_doubled() -> None:
    count = count_ids(ids(2, 0, 1), 3)
    assert (count.rows, count.lost, count.doubled, count.unknown, count.lost_or_doubled) == (3, 0, 0, 0, 0)


def test_missing_and_doubled_records_do_not_make_up_for_each_other() -> None:
    count = count_ids(ids(0, 0, 0, 3), 4)
    assert (count.lost, count.doubled, count.lost_or_doubled) == (2, 2, 4)


def test_rows_of_records_that_were_never_sent_count() -> None:
    count = count_ids(ids(0, 1, 2, -1), 2)
    assert (count.lost, count.doubled, count.unknown) == (0, 0, 2)


def test_a_table_without_rows_has_lost_all() -> None:
    assert count_ids(ids(), 5).lost == 5


def test_a_mirror_in_another_order_or_partition_is_noticed() -> None:
    source = {0: [0, 2], 1: [1, 3]}
    report = Report(sent=4, acknowledged=4)
    same = compare(source, source, report)
    assert (same["mirror_lost_or_doubled"], same["partitions_out_of_order"]) == (0, 0)
    swapped = compare(source, {0: [2, 0], 1: [1, 3]}, report)
    assert (swapped["mirror_lost_or_doubled"], swapped["partitions_out_of_order"]) == (0, 1)
    lost = compare(source, {0: [0, 2], 1: [1, 1]}, report)
    assert (lost["records_lost"], lost["records_doubled"], lost["mirror_lost_or_doubled"]) == (1, 1, 2)


def test_nothing_is_claimed_when_the_producer_does_not_know_what_is_there() -> None:
    found = compare({0: [0]}, {0: [0]}, Report(sent=2, acknowledged=1, failed=[1]))
    assert found["mirror_lost_or_doubled"] is None


def test_ids_are_read_from_values() -> None:
    assert ids_of({1: [record_value(7, 1_700_000_000_000, 200)]}) == {1: [7]}


def test_a_record_has_its_size() -> None:
    value = record_value(7, 1_700_000_000_000, 200)
    assert len(value) == 200
    assert json.loads(value)["at"] == 1_700_000_000_000


# -- Lag ---------------------------------------------------------------------------------------------------------------

TICKS = [Tick(1_000, 0), Tick(1_050, 10), Tick(1_100, 20)]


@pytest.mark.parametrize(("record_id", "at_ms"), [(0, 1_000), (9, 1_000), (10, 1_050), (19, 1_050), (500, 1_100)])
def test_a_record_was_sent_at_its_tick(record_id: int, at_ms: int) -> None:
    assert sent_at_ms(TICKS, record_id) == at_ms


def test_the_lag_is_the_age_of_the_oldest_record_that_is_missing() -> None:
    assert lag_s(Look(at_ms=3_050, first_missing=10), TICKS) == 2.0


def test_there_is_no_lag_when_nothing_was_sent_that_is_missing() -> None:
    assert lag_s(Look(at_ms=1_040, first_missing=10), TICKS) == 0.0


def test_a_tick_that_is_being_written_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "ticks").write_text("1000 0\n1050 10\n110")
    assert read_ticks(tmp_path) == [Tick(1_000, 0), Tick(1_050, 10)]


class OneFile(TableReader):
    """A table whose files are given."""

    def __init__(self) -> None:
        super().__init__("hdfs://127.0.0.1:1/t")
        self.given: dict[str, np.ndarray] = {}

    def _current_files(self) -> list[str]:
        return list(self.given)

    def _ids_of(self, path: str) -> np.ndarray:
        self._ids[path] = self.given[path]
        return self.given[path]


def test_the_first_missing_id_moves_over_files_in_any_order() -> None:
    reader = OneFile()
    assert reader.first_missing() == 0
    reader.given["b"] = ids(3, 4)
    assert reader.first_missing() == 0
    reader.given["a"] = ids(0, 1)
    assert reader.first_missing() == 2
    reader.given = {"merged": ids(0, 1, 2, 3, 4)}
    assert reader.first_missing() == 5


# -- Faults ------------------------------------------------------------------------------------------------------------


def test_a_seed_gives_the_same_faults_again() -> None:
    counts = MirrorPlan().counts
    assert plan_faults(17, counts, away_s=60.0) == plan_faults(17, counts, away_s=60.0)
    assert plan_faults(17, counts) != plan_faults(18, counts)


@pytest.mark.parametrize("seed", range(20))
def test_a_plan_has_what_was_asked_for(seed: int) -> None:
    faults = plan_faults(seed, MirrorPlan().counts, away_s=60.0)
    counted = Counter(fault.victim for fault in faults)
    assert counted == {Victim.JOB: 10, Victim.BROKER: 3, Victim.TARGET: 2, Victim.TARGET_AWAY: 1}
    for fault in faults:
        assert DELAY_S[0] <= fault.delay_s <= DELAY_S[1]
        if fault.victim is Victim.TARGET_AWAY:
            assert fault.back_s == 60.0
        else:
            assert BACK_S[0] <= fault.back_s <= BACK_S[1]
            assert not fault.is_pause


def test_a_target_is_away_by_pause_and_by_kill() -> None:
    away = {plan_faults(seed, {Victim.TARGET_AWAY: 1}, away_s=60.0)[0].is_pause for seed in range(20)}
    assert away == {True, False}


class FakeProcess:
    """Dies when it is killed; `ends` makes it end by itself."""

    def __init__(self) -> None:
        self.name, self.pid = "job", 2**22 + 1
        self.exit_code: int | None = None
        self.starts = 0

    @property
    def is_running(self) -> bool:
        return self.starts > 0 and self.exit_code is None

    def start(self) -> None:
        self.exit_code = None
        self.starts += 1

    def kill(self) -> None:
        self.exit_code = -9

    def log_of_this_run(self) -> str:
        return "WARN\nbmq: the cluster does not answer\n"


class FakeServers:
    def __init__(self) -> None:
        self.said: list[str] = []

    def tick(self) -> None:
        pass

    def heal(self) -> None:
        self.said.append("heal")

    def hurt(self, fault: Fault) -> str:
        self.said.append("hurt")
        return "node 1"


def fake_job(tmp_path: Path) -> tuple[Job, FakeProcess]:
    """One that gets on whenever it is asked."""
    asked = iter(range(1_000_000))
    job = Job("job", [], tmp_path / "log", {}, final_codes=frozenset({2}), progress=lambda _: next(asked))
    process = FakeProcess()
    job.process = process  # type: ignore[assignment]
    job.start()
    return job, process


def test_every_fault_is_performed_once_and_servers_are_healed_before_they_are_hurt(tmp_path: Path) -> None:
    job, process = fake_job(tmp_path)
    servers = FakeServers()
    kills = [Fault(victim, 0.0, 0.0, 0) for victim in (Victim.JOB, Victim.BROKER, Victim.JOB)]
    done = perform(kills, job, servers)
    assert [each["victim"] for each in done] == ["job", "broker", "job"]
    assert (job.kills, process.starts) == (2, 3)
    assert servers.said == ["heal", "hurt", "heal"]


def test_a_job_that_ends_by_itself_is_started_again_and_noted(tmp_path: Path) -> None:
    job, process = fake_job(tmp_path)
    process.exit_code = 1
    job.supervise()
    assert process.starts == 2
    assert job.ended == ["1: bmq: the cluster does not answer"]


def test_a_job_that_has_to_be_mended_first_ends_the_campaign(tmp_path: Path) -> None:
    job, process = fake_job(tmp_path)
    process.exit_code = 2
    with pytest.raises(CampaignStuck, match="ended with 2"):
        job.supervise()


def test_batches_that_were_written_before_are_no_progress(tmp_path: Path) -> None:
    lines = [
        '{"table":"t","rows":0,"is_replay":true}',
        "WARN something",
        '{"table":"t","rows":5,"is_replay":false}',
        '{"table":"t","rows":7,"is_re',
    ]

    class Said(FakeProcess):
        def log_of_this_run(self) -> str:
            return "\n".join(lines)

    job, _ = fake_job(tmp_path)
    job.process = Said()  # type: ignore[assignment]
    assert [batch["rows"] for batch in batches(job)] == [5]


# -- Resumed -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resumed", "is_same"),
    [
        (Outcome(0, {"records": 1}), True),
        (Outcome(0, {"records": 2}), False),
        (Outcome(75, None), False),
    ],
)
def test_a_resumed_job_is_compared(resumed: Outcome, is_same: bool) -> None:
    assert entry("stats", Outcome(0, {"records": 1}), resumed, {})["is_same"] is is_same


def test_two_failures_are_not_the_same_result() -> None:
    assert not entry("stats", Outcome(1, None), Outcome(1, None), {})["is_same"]


def test_a_traceback_is_counted() -> None:
    said = "Traceback (most recent call last):\n  boom"
    assert entry("stats", Outcome(0, 1), Outcome(0, 1, said), {})["tracebacks"] == 1
