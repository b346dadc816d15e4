"""The campaign of copiers: its plan follows from its seed, and its comparison finds whatever is missing or there too often."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from hypothesis import given
from hypothesis import strategies as st

from tests.soak.etl.comparison import compare
from tests.soak.etl.copier import last_word
from tests.soak.etl.crew import Copier, work_of
from tests.soak.etl.plan import FAULT_PAUSE_S, LASTS_S, MOVED, Kind, plan

pytestmark = pytest.mark.campaign("unit")

SEEDS = st.integers(0, 2**32)
DURATIONS_S = st.floats(20, 600)
"""Up to what `make etl` takes; an hour's plan follows from the same rules, and takes six times as long to make."""
VALUES = st.lists(st.text("abc", min_size=1, max_size=2), max_size=8)
COPIES = st.dictionaries(st.integers(0, 2), VALUES)


@given(SEEDS, DURATIONS_S, st.integers(1, 20))
def test_a_plan_follows_from_its_seed_and_leaves_the_end_quiet(seed: int, duration_s: float, kills: int) -> None:
    found = plan(seed, duration_s, 4, kills, 6)
    assert found == plan(seed, duration_s, 4, kills, 6)
    assert Counter(kill.copier for kill in found.copier_kills) == dict.fromkeys(range(4), kills)
    times_s = [kill.at_s for kill in found.copier_kills]
    assert times_s == sorted(times_s) and times_s[0] > 0 and times_s[-1] <= found.hurt_until_s + 0.01
    assert found.hurt_until_s < duration_s
    # There is always another one until it is quiet, however fast all of them go.
    fastest_s = sum(fault.after_s + fault.lasts_s for fault in found.faults)
    assert fastest_s >= min(FAULT_PAUSE_S) * duration_s
    assert sum(move.after_s for move in found.moves) >= duration_s


@given(SEEDS)
def test_every_kind_of_fault_is_among_the_first_and_every_kind_of_partition_moves(seed: int) -> None:
    found = plan(seed, 600, 4, 20, 6)
    assert {fault.kind for fault in found.faults[: len(Kind) + 2]} == set(Kind)
    assert all(LASTS_S[fault.kind][0] <= fault.lasts_s <= LASTS_S[fault.kind][1] for fault in found.faults)
    assert {move.role for move in found.moves} == set(MOVED)


@given(COPIES)
def test_a_copy_is_whole_when_it_is_the_same(source: dict[int, list[str]]) -> None:
    found = compare(source, {partition: [*values] for partition, values in source.items()})
    assert found.lost_or_doubled == 0
    assert not found.disordered
    assert found.source_count == sum(map(len, source.values()))


@given(COPIES, COPIES)
def test_everything_missing_and_everything_more_is_counted(
    source: dict[int, list[str]], target: dict[int, list[str]]
) -> None:
    found = compare(source, target)
    assert found.source_count - len(found.lost) + len(found.doubled) == sum(map(len, target.values()))
    is_the_same = all(source.get(each, []) == target.get(each, []) for each in source.keys() | target.keys())
    assert is_the_same == (found.lost_or_doubled == 0 and not found.disordered)


def test_records_in_another_order_are_told() -> None:
    found = compare({0: ["a", "b"], 1: ["c"]}, {0: ["b", "a"], 1: ["c"]})
    assert (found.lost_or_doubled, found.disordered) == (0, [0])


def test_what_copiers_said_is_added_up(tmp_path: Path) -> None:
    copier = Copier(0, "librdkafka", "-", "nobody:1", ("source", "target"), "group", "classic", tmp_path)
    lines = (
        "1000 ready",
        "%4|1700000000.000|a line of the client itself",
        "2000 committed 10 150",
        "9000 committed 5 2500",
        "9500 aborted 7 30 on purpose",
        "9700 refused 3 40 some error",
        "9800 fatal fenced",
    )
    copier.process.log_file.write_text("\n".join(lines) + "\n")
    work = work_of([copier])
    assert work.records == 15
    assert work.words == Counter(ready=1, committed=2, aborted=1, refused=1, fatal=1)
    assert work.longest_s == {"librdkafka": 2.5}
    assert work.gap_s == 7.0
    assert work.refused == Counter({"librdkafka: some error": 1})
    assert work.fatal == ["copier-0-librdkafka at 9.800: fenced"]


def test_an_evicted_static_member_is_told_from_a_fenced_producer() -> None:
    assert last_word(KafkaError(KafkaError.FENCED_INSTANCE_ID)) == "evicted"
    words = "Fatal consumer error: Broker: Static consumer fenced by other consumer with same group.instance.id"
    assert last_word(KafkaError(KafkaError._FATAL, words, True)) == "evicted"
    fenced = KafkaError(KafkaError._FENCED, "Local: This instance has been fenced by a newer instance", True)
    assert last_word(fenced) == "fatal"


def test_an_instance_that_is_still_used_is_told_from_other_ends() -> None:
    assert last_word(KafkaError(KafkaError.UNRELEASED_INSTANCE_ID)) == "unreleased"
    words = f"ConsumerGroupHeartbeat fatal error: {KafkaError(KafkaError.UNRELEASED_INSTANCE_ID).str()}"
    assert last_word(KafkaError(KafkaError._FATAL, words, True)) == "unreleased"


@pytest.mark.parametrize(
    ("protocol", "number", "lives"),
    [
        ("classic", 1, ["classic", "classic", "classic"]),
        ("consumer", 1, ["consumer", "consumer", "consumer"]),
        ("both", 0, ["consumer", "classic", "consumer"]),
        ("both", 1, ["classic", "consumer", "classic"]),
    ],
)
def test_a_copier_of_both_protocols_changes_with_each_life(
    protocol: str, number: int, lives: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copier = Copier(number, "librdkafka", "-", "nobody:1", ("source", "target"), "group", protocol, tmp_path)
    monkeypatch.setattr(copier.process, "start", lambda: None)
    started = []
    for _ in lives:
        copier.start()
        started.append(copier.process.arguments[-2])
    assert started == lives
