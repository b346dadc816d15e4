"""Share groups' benchmark: its frames, what it reads from Kafka's tool, its ledger, and what is judged."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bench.criteria import Evidence
from bench.queues.criteria import CONSUME, LOADS, LOCKS, PART_OF, judge
from bench.queues.failover import Deliveries
from bench.queues.frames import LENGTH_BYTES, VERSION, Fetching, session_frames
from bench.queues.ledger import Ledger
from bench.queues.loads import parsed
from bench.queues.member import Given
from bench.queues.plan import PARTS, plan_of
from bench.runner import FULL, QUICK, SMOKE
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_request, parse_request_header

pytestmark = pytest.mark.unit

OUT = """
2026-01-01 10:00:00:000, 2026-01-01 10:00:05:500, 0.0001, 0.0000, 0.18, 1, 5500 for share consumer 1
2026-01-01 10:00:00:000, 2026-01-01 10:00:05:000, 0.0001, 0.0000, 0.18, 1, 5000 for share consumer 2
2026-01-01 10:00:05:500, 2026-01-01 10:00:06:500, 12.7, 12.7, 134039.9, 1200, 1001 for share consumer 1
2026-01-01 10:00:00:000, 2026-01-01 10:00:09:000, 19.0, 2.1, 222.2, 2000, 9000
"""


def judged(parts: dict[str, Any]) -> dict[str, Any]:
    measured = {part: {"revision": "abc"} for part in parts}
    return {one["id"]: one for one in judge(Evidence(parts, {}, measured, {}))}


def consumed(records_per_s: float) -> dict[str, Any]:
    share = {"records_per_s": records_per_s, "records": 100, "server_cpu_s": 1.0, "first_record_s": 1.0}
    return {load: {"share": dict(share), "plain": {"records_per_s": 300.0}} for load in LOADS}


def requests_of(data: bytes) -> list[bytes]:
    found = []
    while data:
        end = LENGTH_BYTES + int.from_bytes(data[:LENGTH_BYTES], "big")
        found.append(data[LENGTH_BYTES:end])
        data = data[end:]
    return found


def test_every_criterion_is_of_a_part_that_is_run() -> None:
    assert set(PART_OF.values()) == set(PARTS)
    assert [plan_of(PARTS, (), size).pairs for size in (FULL, QUICK, SMOKE)] == [3, 1, 1]


def test_the_worst_load_is_judged_and_all_are_reported() -> None:
    ours, theirs = consumed(200.0), consumed(100.0)
    ours["1k_8"]["share"]["records_per_s"] = 140.0
    found = judged({CONSUME: {"wanted": 1, "pairs": [{"bmq": ours, "kafka": theirs}]}})
    one = found["share_consume_ratio"]
    assert one["value"] == pytest.approx(1.4) and not one["holds"] and "1 KiB, 8 consumers" in one["what"]
    assert found["share_consume_ratio_100b_1"]["value"] == pytest.approx(2)
    assert found["share_vs_plain"]["value"] == pytest.approx(200 / 300, abs=1e-3) and found["share_vs_plain"]["holds"]
    assert found["share_cpu_per_record_ratio"]["value"] == 1


def test_a_load_that_was_not_measured_leaves_nothing_to_be_judged() -> None:
    ours = consumed(200.0)
    del ours["100b_8"]
    found = judged({CONSUME: {"wanted": 1, "pairs": [{"bmq": ours, "kafka": consumed(100.0)}]}})
    assert found["share_consume_ratio"]["value"] is None and not found["share_consume_ratio"]["holds"]


def test_memory_is_that_of_the_largest_round() -> None:
    rounds = [{"memory_mib": 59.0, "single_memory_mib": 400.0}, {"memory_mib": 61.0, "single_memory_mib": 410.0}]
    found = judged({LOCKS: {"bmq": {"wanted": 2, "rounds": rounds}}})
    assert found["locks_memory_mib"]["value"] == 61 and not found["locks_memory_mib"]["holds"]
    assert "holds" not in found["locks_memory_single_mib"]


def test_frames_of_a_session() -> None:
    asked = Fetching("g", UUID(int=7), [("member-1", 0), ("member-2", 3)], max_wait_ms=400, max_records=1)
    made = session_frames(asked)
    requests = requests_of(made.data)
    assert len(requests) == 6
    opening, fetching, accepting = (decode_request(parse_request_header(one), one) for one in requests[3:])
    assert (opening.share_session_epoch, opening.max_records, opening.max_wait_ms) == (0, 0, 0)
    assert opening.topics[0].partitions[0].partition_index == 3
    assert (fetching.max_wait_ms, fetching.max_records, list(fetching.topics)) == (400, 1, [])
    changed = bytearray(requests[5])
    changed[made.epoch_at : made.epoch_at + 4] = (77).to_bytes(4, "big")
    changed[made.first_at : made.first_at + 8] = (5).to_bytes(8, "big")
    changed[made.last_at : made.last_at + 8] = (6).to_bytes(8, "big")
    accepting = decode_request(parse_request_header(changed), changed)
    (batch,) = accepting.topics[0].partitions[0].acknowledgement_batches
    assert accepting.share_session_epoch == 77
    assert (batch.first_offset, batch.last_offset, list(batch.acknowledge_types)) == (5, 6, [1])
    assert parse_request_header(changed)[:2] == (ApiKey.SHARE_FETCH, VERSION)


def test_members_with_ids_of_different_lengths_have_no_frames() -> None:
    with pytest.raises(ValueError, match="same places"):
        session_frames(Fetching("g", UUID(int=7), [("a", 0), ("bb", 0)]))


def test_rates_of_the_tool_count_from_the_first_record() -> None:
    found = parsed(OUT, 2_000)
    assert found["first_record_s"] == 5 and found["records_per_s"] == 500
    assert found["tool_records_per_s"] == pytest.approx(2_000 / 9)


def test_a_tool_that_read_too_little_has_no_rate() -> None:
    for out in ("", OUT):
        with pytest.raises(LoadFailed):
            parsed(out, 3_000)


def test_the_gap_is_the_longest_that_ends_after_the_kill() -> None:
    seen = Deliveries()
    seen.times = [0.0, 3.0, 3.1, 4.0, 4.1]
    assert seen.gap_s(3.05) == pytest.approx(0.9)
    assert seen.gap_s(0.0) == 3


def test_the_ledger_counts_what_must_not_be() -> None:
    ledger = Ledger(2, 4)
    ledger.delivered([Given(0, 0, 1, 1)])
    ledger.delivered([Given(0, 1, 1, 2)])
    assert ledger.counts_lost == 0
    ledger.delivered([Given(0, 1, 1, 2)])
    assert ledger.counts_lost == 1
    ledger.accepting([Given(0, 0, 1, 1)])
    ledger.delivered([Given(0, 0, 0, 2)])
    assert ledger.accepted_twice == 0  # nobody knew that it was accepted
    ledger.accepted([Given(0, 0, 1, 1)])
    ledger.delivered([Given(0, 1, 1, 4)])
    assert ledger.accepted_twice == 1
    assert not ledger.is_finished and ledger.found()["lost"] == 2
    ledger.accepting([Given(1, 0, 1, 1)])
    assert ledger.is_finished
    found = ledger.found()
    assert (found["lost"], found["accepted"], found["accepts_of_unknown_outcome"]) == (0, 2, 2)
    assert (found["deliveries"], found["delivered_again"]) == (6, 4)
