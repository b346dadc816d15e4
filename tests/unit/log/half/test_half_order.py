"""Random histories of half messages with owners, cuts and refusals: each decided once, and found again by the next owner."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bmq.log.half.half_announcement import HalfRecord, PlacedDecision, encode_half, parse_half
from bmq.log.half.half_headers import AskedDecision, HalfRefused, Outcome
from bmq.log.half.half_order import FINISHED_MAX, HalfDecision, HalfMessage, HalfOrder
from bmq.log.half.half_replay import HalfReplay, decided_of, halves_of
from bmq.log.half.half_split import empty_batch
from bmq.log.timers.announcements import START, Delivery, NamedBatch, Position, encode_delivery
from bmq.log.timers.due_order import DueOrder
from bmq.log.timers.replay import Replay
from bmq.log.timers.waiting_records import Pending
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.record_batch import BatchHeader, CorruptRecords, rewrite
from tests.support.earlier_announcements import of_earlier_release
from tests.unit.log.timers.test_due_order import Log

pytestmark = pytest.mark.unit

NOW_MS = 1_000


@dataclass
class Owner:
    """As an owner does it, with a log in place of files. `manifest`: where to replay from, and a position."""

    log: Log
    epoch: int
    manifest: tuple[int, Position]
    order: DueOrder = field(init=False)
    halves: HalfOrder = field(init=False)

    def __post_init__(self) -> None:
        found = HalfReplay()
        replay = Replay(self.manifest[1], found)
        for number, (batch, end) in enumerate(zip(self.log.batches, self.log.ends, strict=True)):
            if end > self.manifest[0]:
                replay.add_batch(batch, 0, BatchHeader.parse(batch))
                if number % 3 == 0:
                    replay.drop_delivered()
        self.order = DueOrder(replay.position)
        self.order.recover(replay.pending, replay.cancelled, replay.kept)
        self.halves = HalfOrder()
        self.halves.recover(found.halves, found.decided, replay.position, found.finished)

    def hold(self, value: int) -> None:
        self._append([HalfRecord(NOW_MS, 0, f"id-{value}", b"%d" % value)], [])

    def decide(self, offset: int, outcome: Outcome) -> str:
        try:
            if not self.halves.check(AskedDecision(outcome, offset)):
                return "again"
        except HalfRefused:
            return "refused"
        self._append([], [PlacedDecision(offset, max(NOW_MS, self.order.floor_ms), 0, outcome)])
        return "placed"

    def _append(self, records: list[HalfRecord], decisions: list[PlacedDecision]) -> None:
        visible = empty_batch(1)
        control = encode_half(records, decisions, NamedBatch.of(BatchHeader.parse(visible)), NOW_MS)
        announcement = parse_half(control)
        assert announcement is not None
        start = self.log.place(control, self.epoch)
        base = self.log.place(visible, self.epoch)
        decided = decided_of(announcement, base)
        self.halves.place(halves_of(announcement, start, base), decided, start, self.log.end_offset)
        committed = [Pending(*one.position, start) for one in decided if one.outcome is Outcome.COMMIT]
        if committed:
            self.order.place_kept(committed, self.log.end_offset)

    def deliver(self, count_max: int) -> None:
        due = [] if self.order.is_delivering else self.order.take(NOW_MS, count_max)
        if not due:
            return
        names = []
        for one in due:
            half = self.halves.committed_at(one.offset)
            assert half is not None
            names.append(half.offset)
        batch = encode_batch([Record(b"delivered", b"%d" % name) for name in names])
        announced = Delivery(NamedBatch.of(BatchHeader.parse(batch)), self.order.position, due[-1].position)
        start = self.log.place(encode_delivery(announced), self.epoch)
        self.log.place(batch, self.epoch)
        self.order.place_delivery(due, start, self.log.end_offset)

    def sync(self, count: int) -> None:
        self.log.durable = min(self.log.durable + count, len(self.log.batches))
        self.order.synced(self.log.high_watermark)
        self.halves.synced(self.log.high_watermark)
        self.halves.delivered(self.order.position)

    def refuse(self, count: int) -> None:
        self.log.cut(max(self.log.durable, len(self.log.batches) - count))
        self.order.rollback(self.log.end_offset)
        self.halves.rollback(self.log.end_offset)

    def manifest_now(self) -> tuple[int, Position]:
        high_watermark = self.log.high_watermark
        needed = min(self.order.oldest_needed(high_watermark), self.halves.oldest_needed(high_watermark))
        return needed, self.order.position


@dataclass
class Facts:
    """What the log says, by its batches alone; each announcement right in front of its batch."""

    held: list[int] = field(default_factory=list)
    decided: dict[int, Outcome] = field(default_factory=dict)
    delivered: list[int] = field(default_factory=list)

    def __init__(self, log: Log, durable_only: bool) -> None:
        self.held, self.decided, self.delivered = [], {}, []
        end = log.durable if durable_only else len(log.batches)
        for place, batch in enumerate(log.batches[:end]):
            header = BatchHeader.parse(batch)
            if not header.is_control:
                self.delivered += [int(one.value or b"") for one in decode_records(batch) if one.key == b"delivered"]
                continue
            announcement = parse_half(batch)
            if announcement is None or place + 1 >= end:
                continue
            behind = BatchHeader.parse(log.batches[place + 1])
            if behind.is_control or behind.record_count or behind.leader_epoch != header.leader_epoch:
                continue
            self.held += [half.offset for half in halves_of(announcement, header.base_offset, behind.base_offset)]
            for one in decided_of(announcement, behind.base_offset):
                before = self.decided.get(one.offset)
                assert before in (None, Outcome.GIVING_UP), "decided twice"
                self.decided[one.offset] = one.outcome


ACTIONS = st.one_of(
    st.tuples(st.just("hold"), st.just(0)),
    st.tuples(st.sampled_from(["commit", "rollback", "giving up", "given up"]), st.integers(0, 5)),
    st.tuples(st.just("deliver"), st.integers(1, 3)),
    st.tuples(st.just("sync"), st.integers(1, 5)),
    st.tuples(st.just("refuse"), st.integers(1, 4)),
    st.tuples(st.just("manifest"), st.just(0)),
    st.tuples(st.just("takeover"), st.just(0)),
    st.tuples(st.just("plain"), st.just(0)),
)
OUTCOMES = {
    "commit": Outcome.COMMIT,
    "rollback": Outcome.ROLLBACK,
    "giving up": Outcome.GIVING_UP,
    "given up": Outcome.GIVEN_UP,
}


@given(st.lists(ACTIONS, max_size=60), st.data())
@example([("hold", 0), ("sync", 9), ("commit", 0), ("sync", 1), ("takeover", 0), ("commit", 0), ("sync", 9)], None)
@example([("hold", 0), ("sync", 9), ("commit", 0), ("refuse", 1), ("rollback", 0), ("sync", 9), ("takeover", 0)], None)
@example([("hold", 0), ("sync", 9), ("commit", 0), ("sync", 9), ("manifest", 0), ("takeover", 0)], None)
def test_every_half_message_has_one_outcome_and_the_committed_are_delivered_once(
    actions: list[tuple[str, int]], data: st.DataObject | None
) -> None:
    log = Log()
    manifest = (0, START)
    epoch = 1
    owner = Owner(log, epoch, manifest)
    for value, (action, number) in enumerate(actions):
        match action:
            case "hold":
                owner.hold(value)
            case "commit" | "rollback" | "giving up" | "given up":
                held = Facts(log, durable_only=True).held
                if number < len(held):
                    outcome = OUTCOMES[action]
                    before = Facts(log, durable_only=False).decided.get(held[number])
                    if outcome is Outcome.GIVEN_UP:
                        if before is Outcome.GIVING_UP and owner.halves.half(held[number]) in owner.halves.given_up(99):
                            owner._append([], [PlacedDecision(held[number], NOW_MS, 0, outcome)])
                    else:
                        said = owner.decide(held[number], outcome)
                        if before is None:
                            assert said == "placed"
                        elif said != "refused":
                            assert said == "again" and before is outcome
            case "plain":
                log.place(encode_batch([Record(None, b"p")], producer_id=2, producer_epoch=0, base_sequence=0), epoch)
            case "deliver":
                owner.deliver(number)
            case "sync":
                owner.sync(number)
            case "refuse":
                owner.refuse(number)
            case "manifest":
                manifest = owner.manifest_now()
            case "takeover":
                end = len(log.batches)
                log.cut(end if data is None else data.draw(st.integers(log.durable, end)))
                log.durable = len(log.batches)
                epoch += 1
                owner = Owner(log, epoch, manifest)
        facts = Facts(log, durable_only=True)
        assert owner.halves.undecided_count == len(set(facts.held) - facts.decided.keys())
    owner.sync(1000)
    while len(owner.order) or owner.order.is_delivering:
        owner.deliver(2)
        owner.sync(100)
    facts = Facts(log, durable_only=True)
    assert sorted(facts.delivered) == sorted(o for o, outcome in facts.decided.items() if outcome is Outcome.COMMIT)
    waiting = set(facts.held) - facts.decided.keys()
    assert {half.offset for half in owner.halves.undecided(0, 1000)} == waiting
    left = sorted(waiting | {o for o, outcome in facts.decided.items() if outcome is Outcome.GIVING_UP})
    assert len(owner.halves) == len(left)
    assert owner.halves.oldest_needed(log.high_watermark) == (left[0] - 1 if left else log.high_watermark)


HALF = HalfMessage(5, 4, NOW_MS, "id")


def order_with(*halves: HalfMessage) -> HalfOrder:
    order = HalfOrder()
    order.recover(halves, [], START)
    return order


def decided(outcome: Outcome, offset: int = 5, at: int = 9) -> HalfDecision:
    return HalfDecision(offset, outcome, Position(NOW_MS, at))


def test_a_decision_on_its_way_stands_until_it_is_refused() -> None:
    order = order_with(HALF)
    order.place([], [decided(Outcome.COMMIT)], 8, 10)
    assert not order.check(AskedDecision(Outcome.COMMIT, 5)) and not order.is_undecided(5)
    with pytest.raises(HalfRefused, match="5 was committed before"):
        order.check(AskedDecision(Outcome.ROLLBACK, 5))
    assert order.synced(9) is None
    order.rollback(9)
    assert order.check(AskedDecision(Outcome.ROLLBACK, 5)) and order.is_undecided(5)


def test_a_decided_message_is_remembered_for_a_while() -> None:
    order = order_with(HALF)
    order.place([], [decided(Outcome.ROLLBACK)], 8, 10)
    news = order.synced(10)
    assert news is not None and [one.offset for one in news.decided] == [5]
    assert not order.check(AskedDecision(Outcome.ROLLBACK, 5))
    with pytest.raises(HalfRefused, match="rolled back before"):
        order.check(AskedDecision(Outcome.COMMIT, 5))
    for offset in range(100, 100 + FINISHED_MAX):
        order.place([], [decided(Outcome.ROLLBACK, offset)], offset, offset)
    order.synced(10**6)
    with pytest.raises(HalfRefused, match="no half message with offset 5 waits"):
        order.check(AskedDecision(Outcome.ROLLBACK, 5))


def test_the_next_owner_knows_what_was_decided_about_those_that_have_left() -> None:
    log = Log()
    first = Owner(log, 1, (0, START))
    for value in range(3):
        first.hold(value)
    first.sync(99)
    committed, rolled_back, given_up = (half.offset for half in first.halves.undecided(0, 3))
    decisions = ((committed, Outcome.COMMIT), (rolled_back, Outcome.ROLLBACK), (given_up, Outcome.GIVING_UP))
    for offset, outcome in decisions:
        assert first.decide(offset, outcome) == "placed"
    first.sync(99)
    assert first.decide(given_up, Outcome.GIVEN_UP) == "placed"
    first.deliver(9)
    first.sync(99)
    assert len(first.halves) == 0
    second = Owner(log, 2, (0, START))
    assert len(second.halves) == 0
    assert second.decide(committed, Outcome.COMMIT) == "again"
    assert second.decide(rolled_back, Outcome.ROLLBACK) == "again"
    assert second.decide(given_up, Outcome.GIVEN_UP) == "again"
    assert second.decide(rolled_back, Outcome.COMMIT) == "refused"


def test_given_up_ones_wait_for_their_copy_and_nobody_decides_them() -> None:
    order = order_with(HALF)
    order.place([], [decided(Outcome.GIVING_UP)], 8, 10)
    assert order.given_up(99) == []
    order.synced(10)
    assert order.given_up(99) == [HALF] and order.undecided_count == 0 and order.oldest_needed(20) == 4
    with pytest.raises(HalfRefused, match="given up before"):
        order.check(AskedDecision(Outcome.COMMIT, 5))
    order.place([], [decided(Outcome.GIVEN_UP)], 11, 13)
    assert order.given_up(99) == [], "its end is on its way"
    order.rollback(12)
    assert order.given_up(99) == [HALF]
    order.place([], [decided(Outcome.GIVEN_UP)], 11, 13)
    order.synced(13)
    assert len(order) == 0 and order.oldest_needed(20) == 20


def test_a_committed_message_is_needed_until_it_is_delivered() -> None:
    order = order_with(HALF)
    order.place([], [decided(Outcome.COMMIT)], 8, 10)
    order.synced(10)
    assert order.committed_at(9) == HALF and order.committed_at(8) is None
    order.delivered(Position(NOW_MS, 8))
    assert order.oldest_needed(20) == 4
    order.delivered(Position(NOW_MS, 9))
    assert order.oldest_needed(20) == 20 and order.committed_at(9) is None


def test_a_committed_message_that_is_not_in_the_log_is_damage() -> None:
    order = HalfOrder()
    order.recover([], [decided(Outcome.COMMIT)], Position(NOW_MS, 9))
    with pytest.raises(CorruptRecords, match="the half message 5 is committed"):
        HalfOrder().recover([], [decided(Outcome.COMMIT)], Position(NOW_MS, 8))


def replayed(*batches: tuple[bytearray, int, int]) -> HalfReplay:
    """Of (batch, base offset, leader epoch)."""
    replay = HalfReplay()
    for batch, offset, epoch in batches:
        rewrite(batch, 0, offset, epoch)
        replay.add_batch(batch, 0, BatchHeader.parse(batch))
    return replay


def test_an_announcement_counts_only_at_its_distance_and_with_its_batch() -> None:
    visible, other = encode_batch([Record(None, b"a")]), encode_batch([Record(None, b"b")])
    behind = NamedBatch.of(BatchHeader.parse(visible))
    near = encode_half([HalfRecord(1, 0, "id", b"")], [], behind, NOW_MS)
    far = encode_half([HalfRecord(1, 0, "id", b"")], [], behind, NOW_MS, distance=2)
    between = encode_delivery(Delivery(behind, START, Position(1, 1)))

    def found(*batches: tuple[bytearray, int, int]) -> list[int]:
        return [half.offset for half in replayed(*batches).halves]

    assert found((near, 7, 1), (visible, 8, 1)) == [8]
    assert found((of_earlier_release(near), 7, 1), (visible, 8, 1)) == [8]
    assert found((far, 7, 1), (between, 8, 1), (visible, 9, 1)) == [9]
    assert found((near, 7, 1)) == []
    assert found((near, 7, 1), (other, 8, 1)) == []
    assert found((near, 7, 1), (visible, 8, 2)) == [], "of another owner"
    assert found((near, 7, 1), (visible, 9, 1)) == []
    assert found((near, 7, 1), (between, 8, 1), (visible, 9, 1)) == []
    assert found((far, 7, 1), (visible, 8, 1)) == []
    assert found((far, 7, 1), (other, 8, 1), (visible, 9, 1)) == [], "no announcement between"
    assert found((far, 7, 1), (between, 8, 2), (visible, 9, 2)) == []
    assert found((far, 7, 1), (bytearray(near), 8, 1), (visible, 9, 1)) == [9], "one of the same kind replaces it"
