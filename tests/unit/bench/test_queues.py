"""Share groups' benchmark: its frames, what it reads from Kafka's tool, its ledger, and what is judged."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bench.criteria import Evidence
from bench.queues.criteria import (
    ACKS,
    CONSUME,
    DETAILS,
    FAILOVER,
    IDLE,
    LOADS,
    LOCKS,
    OLD,
    PART_OF,
    PLAIN,
    THREE,
    judge,
)
from bench.queues.failover import Deliveries
from bench.queues.frames import LENGTH_BYTES, VERSION, Fetching, session_frames
from bench.queues.idle import POLL_MS, POLL_RECORDS, kept_of
from bench.queues.ledger import Ledger
from bench.queues.loads import parsed
from bench.queues.member import Given
from bench.queues.plan import PARTS, plan_of
from bench.runner import FULL, QUICK, SMOKE
from bench.workloads import LoadFailed
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import decode_request, parse_request_header

pytestmark = pytest.mark.campaign("unit")

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


def paired(ours: dict[str, Any], theirs: dict[str, Any], rival: str = "kafka") -> dict[str, Any]:
    return {"wanted": 1, "pairs": [{"bmq": ours, rival: theirs}]}


def both_layouts(one: dict[str, Any], three: dict[str, Any]) -> dict[str, Any]:
    return judged({CONSUME: paired(one, consumed(100.0)), THREE: paired(three, consumed(100.0))})


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


def test_every_part_has_a_limit() -> None:
    limits_s = plan_of(PARTS, (), FULL).limits_s
    assert set(limits_s) == set(PARTS) and min(limits_s.values()) > 0


def test_the_bounds_are_those_that_were_asked_for() -> None:
    found = {name: (one["op"], one["bound"]) for name, one in judged({}).items() if "holds" in one}
    assert found == {
        "share_consume_ratio": (">=", 1.5),
        "share_vs_plain": (">=", 0.5),
        "share_cpu_per_record_ratio": ("<=", 0.7),
        "ack_p99_ratio": ("<=", 0.7),
        "share_failover_gap_s": ("<=", 1.0),
        "counts_lost": ("<=", 0),
        "accepted_twice": ("<=", 0),
        "lost": ("<=", 0),
        "redelivered_by_move": ("<=", 0),
        "locks_memory_mib": ("<=", 60),
        "idle_10000_members_cpu_percent": ("<=", 25),
        "plain_produce": (">=", 0.98),
        "plain_fetch": (">=", 0.98),
        "timer_insert_ratio": (">=", 0.5),
        "timer_error_p99_ms": ("<=", 100),
        "timers_10m_memory_mib": ("<=", 64),
        "timers_10m_takeover_s": ("<=", 0.5),
        "timers_lost_doubled_early": ("<=", 0),
        "thundering_second": ("<=", 1.5),
        "thundering_second_wrong": ("<=", 0),
        "delay_off_cost": (">=", 0.99),
        "view_read_ratio": ("<=", 0.1),
        "view_read_bytes_ratio": ("<=", 0.02),
        "view_all_ratio": ("<=", 1.3),
        "view_owner_cpu_us": ("<=", 3),
        "view_tail_wrong": ("<=", 0),
        "half_message_ratio": (">=", 3),
        "check_back": (">=", 100),
        "lane_flips_skipped": ("<=", 0),
        "lane_flips_doubled": ("<=", 0),
        "lane_flips_misrouted": ("<=", 0),
    }


def test_the_worst_load_is_judged_and_all_are_reported() -> None:
    ours = consumed(200.0)
    ours["1k_8"]["share"]["records_per_s"] = 140.0
    found = both_layouts(ours, consumed(200.0))
    one = found["share_consume_ratio"]
    assert one["value"] == pytest.approx(1.4) and not one["holds"]
    assert one["what"].endswith("one node, 1 KiB, 8 consumers")
    assert found["share_consume_ratio_100b_1"]["value"] == pytest.approx(2)
    assert found["share_vs_plain"]["value"] == pytest.approx(140 / 300, abs=1e-3)
    assert found["share_cpu_per_record_ratio"]["value"] == 1


@pytest.mark.parametrize("load", LOADS)
def test_every_load_of_three_nodes_is_judged(load: str) -> None:
    three = consumed(200.0)
    three[load]["share"].update(records_per_s=120.0, server_cpu_s=3.0)
    found = both_layouts(consumed(200.0), three)
    assert found["share_consume_ratio"]["value"] == pytest.approx(1.2)
    assert found["share_vs_plain"]["value"] == pytest.approx(0.4) and not found["share_vs_plain"]["holds"]
    assert found["share_cpu_per_record_ratio"]["value"] == pytest.approx(3)
    assert "three nodes" in found["share_consume_ratio"]["what"]


@pytest.mark.parametrize("part", [CONSUME, THREE])
def test_a_load_that_was_not_measured_leaves_nothing_to_be_judged(part: str) -> None:
    layouts = {CONSUME: consumed(200.0), THREE: consumed(200.0)}
    del layouts[part]["100b_8"]
    found = both_layouts(layouts[CONSUME], layouts[THREE])
    for name in ("share_consume_ratio", "share_vs_plain", "share_cpu_per_record_ratio"):
        assert found[name]["value"] is None and not found[name]["holds"]


def test_round_trips_of_three_nodes_are_judged_too() -> None:
    def acks(p99_us: int) -> dict[str, Any]:
        return {"rated": {"latency_p99_us": p99_us}}

    found = judged({ACKS: paired(acks(50), acks(100)), THREE: paired({ACKS: acks(80)}, {ACKS: acks(100)})})
    assert found["ack_p99_ratio"]["value"] == pytest.approx(0.8) and not found["ack_p99_ratio"]["holds"]
    assert found["ack_p99_ratio_acks"]["value"] == pytest.approx(0.5)


def test_details_are_reported_and_not_judged() -> None:
    found = judged({})
    assert len(DETAILS) == 3 * 2 * len(LOADS) + 2
    assert not any("holds" in found[name] for name in DETAILS)


def test_plain_loads_are_judged_by_their_throughput() -> None:
    def load(moved_bytes: int, cpu_s: float) -> dict[str, Any]:
        samples = {"value_bytes": moved_bytes, "received_bytes": moved_bytes, "seconds": 2.0, "server_cpu_s": cpu_s}
        return {"produce": samples, "fetch": samples}

    found = judged({PLAIN: paired(load(97, 0.5), load(100, 1.0), OLD)})
    for name in ("plain_produce", "plain_fetch"):
        assert found[name]["value"] == pytest.approx(0.97) and not found[name]["holds"]
        assert found[f"{name}_cpu"]["value"] == pytest.approx(1.94) and "holds" not in found[f"{name}_cpu"]


def test_memory_is_that_of_records_locked_one_by_one() -> None:
    rounds = [{"memory_mib": 59.0, "run_memory_mib": 6.0}, {"memory_mib": 61.0, "run_memory_mib": 5.0}]
    found = judged({LOCKS: {"bmq": {"wanted": 2, "rounds": rounds}}})
    assert found["locks_memory_mib"]["value"] == 61 and not found["locks_memory_mib"]["holds"]
    assert found["locks_memory_runs_mib"]["value"] == 6 and "holds" not in found["locks_memory_runs_mib"]


def test_the_gap_of_a_failover_is_the_longest_of_all_rounds() -> None:
    rounds = [{"gap_s": 0.5}, {"gap_s": 1.2}, {"gap_s": 0.4}]
    sides = {side: {"wanted": 3, "rounds": rounds} for side in ("bmq", "kafka")}
    found = judged({FAILOVER: sides})
    assert found["share_failover_gap_s"]["value"] == 1.2 and not found["share_failover_gap_s"]["holds"]
    assert found["share_failover_gap_median_s"]["value"] == 0.5


def test_idle_members_poll_as_stock_clients_do() -> None:
    samples = {"cpu_percent": 30.0, "long_polls_cpu_percent": 20.0, "polls_per_s": 9.0}
    found = judged({IDLE: {"bmq": {"wanted": 1, "rounds": [samples]}}})
    assert found["idle_10000_members_cpu_percent"]["value"] == 30
    assert found["idle_long_polls_cpu_percent"]["value"] == 20
    assert POLL_MS == 500 and POLL_RECORDS == 500


def test_a_load_that_is_not_kept_up_with_is_scaled_and_one_that_stalls_has_no_figure() -> None:
    assert kept_of("polls", 5_000, 20_000) == 0.25
    assert kept_of("polls", 20_100, 20_000) == 1
    with pytest.raises(LoadFailed, match="900 of 20000 polls"):
        kept_of("polls", 900, 20_000)


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
    assert not ledger.is_finished and ledger.left == ledger.found()["lost"] == 2
    ledger.accepting([Given(1, 0, 1, 1)])
    assert ledger.is_finished
    found = ledger.found()
    assert (found["lost"], found["accepted"], found["accepts_of_unknown_outcome"]) == (0, 2, 2)
    assert (found["deliveries"], found["delivered_again"]) == (6, 4)
