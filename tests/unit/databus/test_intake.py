"""Records are answered once they are in the spool, in order, by the channel's rules and the spool's room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from bmq.databus.intake_record import NewRecord
from bmq.databus.record_fields import NO_HEADERS
from bmq.databus.rules import LaneKey
from bmq.databus.socket_frame import Answer, Code
from bmq.databus.spool import files
from tests.unit.databus.agents import Agent, Asking, channel, channels, turn
from tests.unit.databus.spools import NOW_MS

pytestmark = pytest.mark.unit


def record(value: bytes = b"value", key: bytes | None = None, timestamp_ms: int = -1) -> NewRecord:
    return NewRecord(timestamp_ms, key, value, NO_HEADERS)


async def test_records_of_one_turn_are_one_write_and_answered_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(tmp_path, channel("a"), channel("b", topic="u"))
    asking, other = Asking(), Asking()
    writes: list[int] = []
    real = os.write
    for number in range(5):
        agent.intake.offer(asking, number, b"a" if number % 2 else b"b", record(b"%d" % number))
    agent.intake.offer(other, 9, b"none", record())
    agent.intake.offer(asking, 5, b"none", record())
    agent.intake.offer(asking, 6, b"a", record(b"6"))
    assert asking.answers == []

    def noted(descriptor: int, data: bytes) -> int:
        writes.append(len(data))
        return real(descriptor, data)

    monkeypatch.setattr("bmq.databus.spool.files.os.write", noted)
    await turn()
    assert len(writes) == 2  # the head of the file, and all records
    assert [answer.request_id for answer in asking.answers] == list(range(7))
    assert asking.codes == ["ACCEPTED"] * 5 + ["UNKNOWN_CHANNEL", "ACCEPTED"]
    assert [answer.number for answer in asking.answers] == [1_000, 1_001, 1_002, 1_003, 1_004, -1, 1_005]
    assert other.codes == ["UNKNOWN_CHANNEL"]
    assert (asking.flushes, other.flushes) == (1, 1)
    found = agent.records()
    assert [(one.topic, one.channel, one.value) for one in found[:2]] == [("u", "b", b"0"), ("t", "a", b"1")]
    assert found[0].timestamp_ms == NOW_MS
    assert agent.intake.counts["a"].accepted_records == 3
    assert agent.intake.unknown_channel == 2


async def test_a_record_keeps_its_time(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel())
    agent.intake.offer(Asking(), 0, b"c", record(timestamp_ms=5))
    await turn()
    assert [one.timestamp_ms for one in agent.records()] == [5]


async def test_a_change_of_a_channel_counts_for_the_next_record(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel())
    asking = Asking()
    agent.intake.offer(asking, 0, b"c", record(b"0"))
    agent.intake.use(channels(channel(topic="new", key={"by": "constant", "constant": "k"}), version=2))
    agent.intake.offer(asking, 1, b"c", record(b"1"))
    agent.intake.use(channels(version=3))
    agent.intake.offer(asking, 2, b"c", record(b"2"))
    await turn()
    assert asking.codes == ["ACCEPTED", "ACCEPTED", "UNKNOWN_CHANNEL"]
    assert [(one.topic, one.key, one.value) for one in agent.records()] == [("t", None, b"0"), ("new", b"k", b"1")]
    assert "version 3" in asking.answers[2].sentence


async def test_sampling_leaves_records_out_and_says_so(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel(sampling_rate=0.25))
    asking = Asking()
    agent.rolls = [0.1, 0.9, 0.25, 0.0]
    for number in range(4):
        agent.intake.offer(asking, number, b"c", record(b"%d" % number))
    await turn()
    assert asking.codes == ["ACCEPTED", "SAMPLED_OUT", "SAMPLED_OUT", "ACCEPTED"]
    assert agent.values() == [b"0", b"3"]
    assert agent.intake.counts["c"].sampled_out == 2


async def test_a_rate_limit_is_answered_with_a_delay(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel(rate_limit_records_per_s=2))
    asking = Asking()
    for number in range(4):
        agent.intake.offer(asking, number, b"c", record())
    await turn()
    assert asking.codes == ["ACCEPTED", "ACCEPTED", "RETRY", "RETRY"]
    assert 0 < asking.answers[2].retry_after_ms <= 500
    agent.now_s += 0.5
    agent.intake.offer(asking, 4, b"c", record())
    await turn()
    assert asking.codes[4] == "ACCEPTED"
    assert agent.intake.counts["c"].refused == {Code.RETRY: 2}


@pytest.mark.parametrize(("policy", "code"), [("refuse", "RETRY"), ("drop_newest", "DROPPED")])
async def test_a_full_spool_is_an_answer(tmp_path: Path, policy: str, code: str) -> None:
    agent = Agent(tmp_path, channel(spool_full=policy), bytes_max=2_000)
    asking = Asking()
    for number in range(40):
        agent.intake.offer(asking, number, b"c", record(b"x" * 50))
    await turn()
    kept = asking.codes.count("ACCEPTED")
    assert 15 < kept < 30
    assert asking.codes == ["ACCEPTED"] * kept + [code] * (40 - kept)
    assert agent.budget.used <= 2_000
    assert len(agent.records()) == kept
    counts = agent.intake.counts["c"]
    assert counts.accepted_records == kept
    assert (counts.dropped_newest if policy == "drop_newest" else counts.refused[Code.RETRY]) == 40 - kept
    (lane,) = agent.lanes.values()
    lane.spool.release(2_000)  # all is produced
    lane.spool.drop_oldest(0, 0)
    agent.intake.offer(asking, 40, b"c", record(b"x" * 50))
    await turn()
    assert asking.codes[-1] == "ACCEPTED"


async def test_the_oldest_records_make_room_and_are_counted(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel(spool_full="drop_oldest"), bytes_max=4_000, segment_bytes=500)
    asking = Asking()
    for number in range(200):
        agent.intake.offer(asking, number, b"c", record(b"%03d" % number + b"x" * 40))
        await turn()
    assert set(asking.codes) == {"ACCEPTED"}
    kept = [one.number - 1_000 for one in agent.records()]
    assert kept == list(range(200 - len(kept), 200))
    assert agent.intake.counts["c"].dropped_oldest == 200 - len(kept)
    assert agent.budget.used <= 4_000


async def test_records_of_a_transaction_are_never_dropped(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel(spool_full="drop_oldest"), bytes_max=2_000, segment_bytes=500)
    asking = Asking()
    agent.intake.offer(asking, 0, b"c", record())
    await turn()
    (lane,) = agent.lanes.values()
    lane.busy_numbers = (0, 1 << 60)
    for number in range(1, 60):
        agent.intake.offer(asking, number, b"c", record(b"x" * 50))
        await turn()
    assert asking.codes[-1] == "RETRY"
    assert len(agent.records()) == asking.codes.count("ACCEPTED")
    assert agent.intake.counts["c"].dropped_oldest == 0


async def test_a_disk_that_refuses_is_an_answer_and_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(tmp_path, channel())
    asking = Asking()

    def full(descriptor: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bmq.databus.spool.files.os.write", full)
    agent.intake.offer(asking, 0, b"c", record(b"lost"))
    await turn()
    monkeypatch.undo()
    agent.intake.offer(asking, 1, b"c", record(b"kept"))
    await turn()
    assert asking.codes == ["RETRY", "ACCEPTED"]
    assert "No space left" in asking.answers[0].sentence
    assert asking.answers[1].number == 1_000
    assert agent.values() == [b"kept"]
    assert agent.intake.counts["c"].accepted_records == 1
    assert files.PRIVATE == 0o600


async def test_many_records_are_taken_all_or_none(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel(max_record_bytes=10, rate_limit_records_per_s=5))
    asking = Asking()
    refusal = agent.intake.offer_all(asking, b"c", [record(b"a"), record(b"x" * 11)])
    assert refusal is not None
    assert (refusal.code, refusal.sentence[:9]) == (Code.RECORD_TOO_LARGE, "record 2:")
    assert agent.intake.offer_all(asking, b"c", [record(b"%d" % number) for number in range(5)]) is None
    refusal = agent.intake.offer_all(asking, b"c", [record(b"late")])
    assert refusal is not None
    assert refusal.code is Code.RETRY
    await turn()
    assert asking.codes == ["ACCEPTED"] * 5
    assert agent.values() == [b"0", b"1", b"2", b"3", b"4"]


async def test_a_topic_that_the_cluster_refuses_and_a_stop_are_answers(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel())
    asking = Asking()
    agent.intake.refused_topics = {"t": "the topic t does not exist"}
    agent.intake.offer(asking, 0, b"c", record())
    agent.intake.refused_topics = {}
    agent.intake.is_stopping = True
    agent.intake.offer(asking, 1, b"c", record())
    await turn()
    assert asking.codes == ["TOPIC_REFUSED", "RETRY"]
    assert asking.answers[0].sentence == "the topic t does not exist"
    assert agent.records() == []


async def test_synced_records_are_answered_behind_their_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(tmp_path, channel(), is_synced=True)
    asking = Asking()
    order: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        order.append(f"sync with {len(asking.answers)} answers")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    agent.intake.offer(asking, 0, b"c", record())
    agent.intake.refuse(asking, Answer(Code.BAD_FRAME, 1))
    agent.intake.flush()
    agent.intake.offer(asking, 2, b"c", record())
    assert asking.answers == []
    await agent.intake.drained()
    assert [answer.request_id for answer in asking.answers] == [0, 1, 2]
    assert order[0] == "sync with 0 answers"


async def test_an_oserror_of_a_spool_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(tmp_path, channel(), is_synced=True)
    asking = Asking()

    def broken(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    spool = agent.lane_of(LaneKey("lz4", False)).spool
    for number, name in enumerate(("append", "sync")):
        with monkeypatch.context() as patch:
            patch.setattr(spool, name, broken)
            agent.intake.offer(asking, number, b"c", record())
            await agent.intake.drained()
    agent.intake.offer(asking, 2, b"c", record())
    await agent.intake.drained()
    assert asking.codes == ["RETRY", "RETRY", "ACCEPTED"]
    assert asking.answers[0].sentence == "the spool cannot be written: Input/output error"


async def test_no_records_are_dropped_where_that_gives_no_room(tmp_path: Path) -> None:
    agent = Agent(tmp_path, channel("kept"), channel("d", spool_full="drop_oldest"), bytes_max=4_000, segment_bytes=500)
    asking = Asking()
    agent.intake.offer(asking, 0, b"d", record())
    for number in range(1, 60):
        agent.intake.offer(asking, number, b"kept", record(b"x" * 50))
        await turn()
    taken = asking.codes.count("ACCEPTED")
    agent.intake.offer(asking, 60, b"d", record(b"x" * 1_000))
    await turn()
    assert asking.codes[-1] == "RETRY"
    assert agent.intake.counts["d"].dropped_oldest == 0
    assert len(agent.records()) == taken


async def test_a_record_that_its_key_makes_too_large_for_the_spool_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bmq.databus.intake.BODY_BYTES_MAX", 150)
    agent = Agent(tmp_path, channel(key={"by": "json_path", "path": "a"}))
    asking = Asking()
    large, small = record(b'{"a": "%s"}' % (b"x" * 90)), record(b'{"a": "x"}')
    agent.intake.offer(asking, 0, b"c", large)
    assert agent.intake.offer_all(Asking(), b"c", [small, large]) is not None
    agent.intake.offer(asking, 1, b"c", small)
    await turn()
    assert asking.codes == ["RECORD_TOO_LARGE", "ACCEPTED"]
    assert [one.key for one in agent.records()] == [b"x"]
    assert agent.intake.counts["c"].refused == {Code.RECORD_TOO_LARGE: 3}
