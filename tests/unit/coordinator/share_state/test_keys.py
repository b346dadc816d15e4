"""Share groups that keep the order of each key: which member gets which records, whatever members and shards do."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest

from bmq.coordinator.config import RecordLimits
from bmq.coordinator.share_state.decisions import Span
from bmq.coordinator.share_state.holder import holder_of
from bmq.coordinator.share_state.keys import ABSENT_MS, PartitionKeys
from bmq.coordinator.share_state.window import SPAN_MAX, Window
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.share_state_messages import ANY_NODE, AckType, NamedPartition, ShareExplainRequest
from bmq.records.key_layout import NO_KEY
from tests.support.gate_share import few_in_gate
from tests.unit.broker.world import virtual
from tests.unit.coordinator.share_state.states import TOPIC, States, ranges

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

ACCEPT, RELEASE = AckType.ACCEPT, AckType.RELEASE
LIMITS = RecordLimits(5, 2_000)
FAR = 40_000
"""A hash in another range than low ones."""


def keyed(before: States | None = None) -> States:
    states = States() if before is None else before.take_over()
    states.topics.group_configs["g"] = {"bmq.share.subscription.type": "key_shared"}
    return states


async def get(
    states: States, member_id: str, hashes: Sequence[int], first: int = 0, records_max: int = 100
) -> list[int]:
    """Offsets that the member is given of one batch."""
    answer = await states.acquire(member_id, records_max, batches=[(first, first + len(hashes) - 1)], hashes=hashes)
    return [offset for low, high, _ in ranges(answer) for offset in range(low, high + 1)]


def test_a_key_is_with_one_member_until_its_records_are_done() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        hashes = [7, 7, FAR, 7]
        assert await get(states, "a", hashes, records_max=1) == [0]  # alone, so every range is a's
        assert (await states.acquire("b", batches=[])).next_offset in (2, 4)
        given = {one: await get(states, one, hashes) for one in ("b", "a")}
        assert sorted(given["a"] + given["b"]) in ([1, 2, 3], [2])
        assert given["b"] in ([], [2])  # whoever owns the range of 7 now: a has a record of it

    virtual(main)


def test_a_hash_that_moves_is_drained_first_and_then_given_on() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        hashes = [1 + 16 * number for number in range(60)] * 2
        assert await get(states, "a", hashes, records_max=60) == list(range(60))
        answer = await states.acquire("b", 100, batches=[(0, 119)], hashes=hashes)
        assert ranges(answer) == [] and answer.next_offset == 120  # a has a record of each key
        mine = await get(states, "a", hashes)
        assert 15 < len(mine) < 45  # the others' ranges are b's now
        moved = sorted(set(range(60, 120)) - set(mine))
        settled = [states.acknowledge("a", (one - 60, one - 60, ACCEPT)) for one in moved]
        news, codes = await asyncio.gather(states.wait(answer.version), asyncio.gather(*settled))
        assert not any(codes)
        assert [one.error_code for one in news] == [0]
        assert (await states.acquire("b", batches=[])).next_offset == moved[0]
        assert await get(states, "b", hashes) == moved

    virtual(main)


def test_a_released_record_comes_before_what_follows_it() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        assert await get(states, "a", [7, 7, 7], records_max=1) == [0]
        assert await states.acknowledge("a", (0, 0, RELEASE)) == 0
        assert await get(states, "a", [7, 7], first=1) == []
        assert (await states.acquire("a", batches=[])).next_offset == 0
        assert await get(states, "a", [7, 7, 7], records_max=2) == [0, 1]

    virtual(main)


def test_a_record_in_back_off_holds_up_its_key_alone() -> None:
    async def main() -> None:
        states = keyed()
        states.topics.group_configs["g"]["bmq.share.retry.backoff"] = "10s"
        await states.initialize(start=0)
        assert await get(states, "a", [7, FAR, 7, FAR], records_max=1) == [0]
        assert await states.acknowledge("a", (0, 0, RELEASE)) == 0
        assert await get(states, "a", [7, FAR, 7, FAR]) == [1, 3]
        await asyncio.sleep(10.5)
        assert await get(states, "a", [7, FAR, 7, FAR]) == [0, 2]

    virtual(main)


def test_records_without_a_key_go_to_anybody() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        assert await get(states, "a", [NO_KEY] * 4, records_max=2) == [0, 1]
        assert await get(states, "b", [NO_KEY] * 4) == [2, 3]

    virtual(main)


def test_a_new_owner_of_the_shard_asks_for_the_keys_of_what_is_locked() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        hashes = [7, FAR, 7, 7]
        assert await get(states, "a", hashes, records_max=1) == [0]
        heir = keyed(states)
        answer = await heir.acquire("b", 100, batches=[(2, 3)], hashes=hashes[2:])
        assert (ranges(answer), answer.next_offset) == ([], 0)  # nobody has told what a has
        assert await get(heir, "b", hashes) == [1]
        assert await heir.acknowledge("a", (0, 0, ACCEPT)) == 0
        await asyncio.sleep(ABSENT_MS / 1000 + 1)
        assert await get(heir, "b", hashes) == [2, 3]

    virtual(main)


def test_a_group_that_becomes_key_shared_waits_for_what_others_have() -> None:
    async def main() -> None:
        states = States()
        await states.initialize(start=0)
        hashes = [7, 7, 7, FAR, FAR]
        assert ranges(await states.acquire("a", 1, batches=[(0, 0)])) == [(0, 0, 1)]
        assert ranges(await states.acquire("b", 1, batches=[(1, 1)])) == [(1, 1, 1)]
        states.topics.group_configs["g"] = {"bmq.share.subscription.type": "key_shared"}
        assert await get(states, "c", hashes) == [3, 4]
        assert await get(states, "a", hashes) == []  # b has one of them, too
        assert await states.acknowledge("b", (1, 1, ACCEPT)) == 0
        assert await states.release("c") == 0
        assert await get(states, "b", hashes) == [] or await states.release("b") == 0
        assert 2 in await get(states, "a", hashes)
        states.topics.group_configs["g"] = {}
        assert ranges(await states.acquire("d", batches=[(0, 9)])) != []  # what is left needs no keys any more

    virtual(main)


@pytest.mark.parametrize("node", [(1, 1), (ANY_NODE, ANY_NODE)])
def test_the_end_of_a_session_gives_its_keys_to_the_others(node: tuple[int, int]) -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        hashes = [1 + 16 * number for number in range(40)]
        assert await get(states, "a", hashes, records_max=20) == list(range(20))
        seen = await states.acquire("b", batches=[])
        news, _ = await asyncio.gather(states.wait(seen.version), states.release("a", node=node))
        assert [one.error_code for one in news] == [0]
        assert await get(states, "b", hashes) == list(range(40))

    virtual(main)


def test_a_member_whose_proxy_is_gone_has_no_keys() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        assert await get(states, "a", [7, 7, FAR], records_max=1) == [0]
        states.gone.add((1, 1))
        await states.acquire("b", batches=[], node=(2, 1))
        states.coordinator.nodes_changed()
        await asyncio.sleep(0.1)
        answer = await states.acquire("b", 9, batches=[(0, 2)], hashes=[7, 7, FAR], node=(2, 1))
        assert [one[:2] for one in ranges(answer)] in ([(0, 2)], [(0, 0), (1, 2)])

    virtual(main)


def test_it_is_explained_how_many_records_wait_for_their_keys() -> None:
    async def main() -> None:
        states = keyed()
        await states.initialize(start=0)
        assert await get(states, "a", [7, 7, 7, NO_KEY, 8], records_max=1) == [0]
        part = NamedPartition(topic_id=TOPIC, partition=0)
        (told,) = (await states.coordinator.explain(ShareExplainRequest(group_id="g", partitions=[part]))).partitions
        assert (told.key_members, told.keys_waiting, told.keys_read_to) == (1, 3, 5)

    virtual(main)


@pytest.mark.parametrize(("offset", "data"), [(0, b"\0"), (-1, b"\0\0")])
def test_hashes_that_cannot_be_are_refused(offset: int, data: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        PartitionKeys(0).learn(0, offset, data)
    assert caught.value.code == ErrorCode.INVALID_REQUEST


def test_hashes_are_kept_as_far_as_a_window_reaches() -> None:
    keys, window = PartitionKeys(5), Window(5)
    keys.asked(holder_of("a", 1, 1, 1), 0.0)
    keys.learn(5, 0, b"\1\0" * 3 * SPAN_MAX)
    assert keys.wait(window).unknown_offset == 5 + SPAN_MAX
    assert keys.next_offset(window, "b", -1, LIMITS) == -1  # all of them are a's
    keys.learn(5, 5 + SPAN_MAX, b"\1\0")
    keys.learn(9, 9, b"\0\0")  # a hash that is known stays
    window.advance(9)
    assert keys.spans(window, "a", [Span(9, 10)], -1, 9) == [Span(9, 10)]
    assert keys.wait(window).unknown_offset == 5 + SPAN_MAX
    keys.learn(3, 4, b"\0\0\1\0")  # the state began anew in front
    assert keys.next_offset(Window(3), "a", -1, LIMITS) == 3
    assert keys.wait(Window(3)).unknown_offset == 3


def test_members_that_do_not_ask_while_others_do_lose_their_ranges_until_they_ask_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bmq.coordinator.share_state.keys.MEMBERS_MAX", 100)
    keys = PartitionKeys(0)
    for at_ms in (0.0, 1_000.0):
        for member in "ab":
            keys.asked(holder_of(member, 1, 1, 1), at_ms)
    idle_ms = 1_000 + 60_000.0
    keys.asked(holder_of("a", 1, 1, 1), idle_ms)  # nobody had asked: b may yet
    assert keys.wait(Window(0)).member_count == 2
    keys.asked(holder_of("a", 1, 1, 1), idle_ms + ABSENT_MS / 2)
    keys.asked(holder_of("a", 1, 1, 1), idle_ms + ABSENT_MS)
    assert keys.wait(Window(0)).member_count == 2
    keys.asked(holder_of("a", 1, 1, 1), idle_ms + ABSENT_MS + 1)
    assert keys.wait(Window(0)).member_count == 1
    keys.asked(holder_of("b", 1, 1, 1), idle_ms + ABSENT_MS + 2)
    assert keys.wait(Window(0)).member_count == 2
    for number in range(102):
        keys.asked(holder_of(f"m{number}", 1, 1, 1), idle_ms + ABSENT_MS + 3)
    assert keys.wait(Window(0)).member_count == 100


class History:
    """Members of one partition at random, and what the model says of its records."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = Random(seed)
        self.states = keyed()
        count = dice.randint(20, 60)
        ranges_apart = [1 + 5_000 * number for number in range(dice.randint(1, 6))]
        self.hashes = [NO_KEY if dice.random() < 0.1 else dice.choice(ranges_apart) for _ in range(count)]
        self.holder: dict[int, str] = {}
        self.counts = dict.fromkeys(range(count), 0)
        self.done: set[int] = set()
        self.members = list("abcd")[: dice.randint(1, 4)]
        self.places: dict[str, int] = {}

    def batches(self, first: int) -> tuple[list[tuple[int, int]], list[int]]:
        """A read from here on: whole batches of five."""
        low = first - first % 5
        high = min(low + 5 * self.dice.randint(1, 6), len(self.hashes))
        found = [(at, min(at + 4, high - 1)) for at in range(low, high, 5)]
        return found, self.hashes[low:high]

    async def fetch(self, member: str, records_max: int) -> None:
        place = self.places.get(member, -1)
        if not 0 <= place < len(self.hashes) or self.dice.random() < 0.2:
            answer = await self.states.acquire(member, batches=[])
            self.places[member] = answer.next_offset
            return
        batches, hashes = self.batches(place)
        answer = await self.states.acquire(member, records_max, batches=batches, hashes=hashes)
        given = [(offset, count) for low, high, count in ranges(answer) for offset in range(low, high + 1)]
        for offset, count in given:
            assert offset not in self.done and offset not in self.holder, f"{offset} is not free"
            assert count == self.counts[offset] + 1
            key = self.hashes[offset]
            if key != NO_KEY:
                for other, hashed in enumerate(self.hashes):
                    holder = self.holder.get(other)
                    if hashed == key and holder is not None:
                        assert holder == member, f"{offset} goes to {member}, {holder} has {other}"
                    if hashed == key and other < offset and holder is None:
                        assert other in self.done, f"{offset} is given before {other}"
            self.holder[offset], self.counts[offset] = member, count
        self.places[member] = answer.next_offset

    async def settle(self, member: str, kind: AckType, offsets: Sequence[int]) -> None:
        for offset in offsets:
            assert await self.states.acknowledge(member, (offset, offset, kind)) == 0
            self.over(offset, is_accepted=kind is ACCEPT)

    def over(self, offset: int, *, is_accepted: bool = False) -> None:
        del self.holder[offset]
        if is_accepted or self.counts[offset] >= 5:
            self.done.add(offset)

    def held(self, member: str) -> list[int]:
        return sorted(offset for offset, holder in self.holder.items() if holder == member)

    async def step(self) -> None:
        dice, member = self.dice, self.dice.choice(self.members)
        held = self.held(member)
        match dice.randrange(20):
            case 0:
                self.states = keyed(self.states)
            case 1:
                assert await self.states.release(member) == 0
                for offset in held:
                    self.over(offset)
                self.places.pop(member, None)
            case 2 if dice.random() < 0.3:
                await asyncio.sleep(31)
                await self.states.acquire(member, batches=[])
                await asyncio.sleep(2)
                for offset in sorted(self.holder):
                    self.over(offset)
                self.places.clear()
            case 3:
                await asyncio.sleep(ABSENT_MS / 2_000)
            case 4 | 5:
                await self.settle(member, RELEASE, dice.sample(held, min(len(held), dice.randint(1, 2))))
            case 6 | 7 | 8 | 9:
                await self.settle(member, ACCEPT, dice.sample(held, dice.randint(0, len(held))))
            case _:
                await self.fetch(member, dice.randint(1, 12))

    async def run(self) -> None:
        await self.states.initialize(start=0)
        for _ in range(self.dice.randint(20, 150)):
            await self.step()
        for _ in range(12 * len(self.hashes)):
            if len(self.done) == len(self.hashes):
                return
            for member in self.members:
                await self.settle(member, ACCEPT, self.held(member))
                await self.fetch(member, 100)
        raise AssertionError(f"left: {sorted(set(range(len(self.hashes))) - self.done)}, held: {self.holder}")


@few_in_gate("part", range(4), every=4, others=in_campaign)
def test_any_history_gives_each_key_in_order_to_one_member_at_a_time(part: int) -> None:
    for seed in range(part * 15, (part + 1) * 15):

        async def main(seed: int = seed) -> None:
            await History(seed).run()

        try:
            virtual(main)
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
