"""What nodes get of the metadata log: everything once, in order, nothing that is not durable, a snapshot where that is shorter."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.controller.decision_log import ControllerGone
from bmq.metadata.broker_configs import static_configs
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import MetadataState
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.internal_messages import MetadataFetchResponse
from bmq.protocol.metadata_records import decode_record
from bmq.protocol.record_batch import batches
from tests.support.asking import ask
from tests.unit.controller.controller_lab import CONFIG, CONTROLLER_NODE, ControllerLab, on_virtual_time
from tests.unit.controller.support import create, topic

pytestmark = pytest.mark.unit


class Follower:
    """A node's replica, fed with responses."""

    def __init__(self) -> None:
        self.offset = -1
        self.snapshots = 0
        self._begin()

    def _begin(self) -> None:
        self.state = MetadataState("cluster", CONTROLLER_NODE.node_id, static_configs(CONTROLLER_NODE, {}))

    def take(self, response: MetadataFetchResponse) -> None:
        assert response.error_code == ErrorCode.NONE, response.error_message
        if response.is_snapshot:
            self._begin()
            self.snapshots += 1
            self.state.replay_snapshot(bytes(response.data))
        else:
            for position, _ in batches(response.data):
                for record in decode_records(response.data, position):
                    if record.offset >= self.offset:
                        self.state.replay(decode_record(record.value or b""))
        self.offset = response.end_offset
        self.state.set_controller(response.controller_id)

    async def follow(self, lab: ControllerLab) -> MetadataImage:
        """Until there is nothing more; the image."""
        while True:
            before = self.offset
            self.take(await lab.fetch(self.offset))
            if self.offset == before:
                return self.state.image_at(self.offset)


@on_virtual_time
async def test_a_node_follows_from_a_snapshot_on() -> None:
    lab = ControllerLab()
    async with lab.controller():
        await lab.join(1, 2)
        await lab.create("a", 4, 2)
        follower = Follower()
        assert await follower.follow(lab) == lab.image
        await lab.create("b", 3)
        await ask(lab.active, create(*(topic(f"c{n}", 2) for n in range(30))))
        assert await follower.follow(lab) == lab.image
        assert follower.snapshots == 1
        assert (await lab.fetch(follower.offset)).data == b""


@on_virtual_time
async def test_a_poll_waits_for_what_comes() -> None:
    lab = ControllerLab()
    async with lab.controller():
        await lab.join(1)
        offset = lab.image.offset
        empty = await lab.fetch(offset, wait_ms=400)
        assert (empty.end_offset, empty.data) == (offset, b"")
        assert lab.now_s == pytest.approx(0.4)
        polling = asyncio.ensure_future(lab.fetch(offset, wait_ms=20_000))
        await asyncio.sleep(1)
        assert not polling.done()
        await lab.create("t", 2)
        response = await polling
        assert response.end_offset == lab.image.offset == offset + 3
        assert lab.now_s < 2 and lab.log.waiting_count == 0


@on_virtual_time
async def test_polls_do_not_wait_longer_than_allowed_nor_too_many_of_them() -> None:
    lab = ControllerLab()
    config = replace(CONFIG, metadata_fetch_wait_max_ms=500, metadata_fetches_max=2)
    async with lab.controller(config):
        offset = lab.image.offset
        polls = [asyncio.ensure_future(lab.fetch(offset, wait_ms=2_000_000_000)) for _ in range(3)]
        answers = await asyncio.gather(*polls)
        assert sorted(answer.error_code for answer in answers) == [0, 0, ErrorCode.REQUEST_TIMED_OUT]
        assert lab.now_s == pytest.approx(0.5)


@on_virtual_time
async def test_nothing_above_the_high_watermark_is_sent() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1)
        offset = lab.image.offset
        lab.log.is_acknowledging = False
        creating = asyncio.ensure_future(ask(controller, create(topic("t"))))
        await lab.until(lambda: lab.log.pending_count == 1)
        assert lab.log.log_end_offset > offset
        assert (await lab.fetch(offset, wait_ms=300)).data == b""
        assert (await lab.fetch(-1)).end_offset == offset
        lab.log.is_acknowledging = True
        lab.log.acknowledge()
        await creating
        assert (await lab.fetch(offset)).end_offset == offset + 2


@on_virtual_time
async def test_a_node_that_is_ahead_or_too_far_behind_begins_again() -> None:
    lab = ControllerLab()
    async with lab.controller():
        await lab.join(1)
        await lab.create("t", 2)
        for offset in (10_000, -1, -7):
            response = await lab.fetch(offset)
            assert response.is_snapshot and response.end_offset == lab.image.offset
        await lab.log.delete_records(lab.image.offset)
        behind = await lab.fetch(1)
        assert behind.is_snapshot and behind.end_offset == lab.image.offset
        assert not (await lab.fetch(lab.image.offset)).is_snapshot


@on_virtual_time
async def test_a_node_whose_records_were_lost_begins_again_even_when_later_ones_are_past_it() -> None:
    lab = ControllerLab()
    async with lab.controller():
        await lab.join(1)
        await lab.create("t", 2)
        offset, epoch = lab.image.offset, lab.epoch
        # An earlier epoch's records ended at 2; the node has 3 of them, and the log is longer than that by now.
        lab.log.epoch_end_offset = lambda leader_epoch: (leader_epoch, 2 if leader_epoch < epoch else offset)  # type: ignore[method-assign]
        assert offset > 3
        lost = await lab.fetch(3, offset_epoch=epoch - 1)
        assert lost.is_snapshot and lost.end_offset == offset
        assert not (await lab.fetch(2, offset_epoch=epoch - 1)).is_snapshot
        assert not (await lab.fetch(3, offset_epoch=epoch)).is_snapshot


@on_virtual_time
async def test_what_is_dropped_between_the_look_and_the_read_is_replaced_by_a_snapshot() -> None:
    lab = ControllerLab()
    async with lab.controller():
        await lab.join(1)
        read = lab.log.read

        async def drop_first(offset: int, length_bytes_max: int) -> object:
            await lab.log.delete_records(lab.image.offset)
            return await read(offset, length_bytes_max)

        lab.log.read = drop_first  # type: ignore[method-assign, assignment]
        response = await lab.fetch(0)
        assert response.is_snapshot and response.end_offset == lab.image.offset


@on_virtual_time
async def test_a_snapshot_is_made_anew_only_when_it_is_old() -> None:
    lab = ControllerLab()
    async with lab.controller(replace(CONFIG, snapshot_age_records_max=5)):
        await lab.join(1)
        first = await lab.fetch(-1)
        await lab.create("t", 2)
        again = await lab.fetch(-1)
        assert again.data is first.data and again.end_offset == first.end_offset < lab.image.offset
        follower = Follower()
        assert await follower.follow(lab) == lab.image
        # What followed an old snapshot is not in the log any more.
        await lab.log.delete_records(lab.image.offset)
        third = await lab.fetch(-1)
        assert third.end_offset == lab.image.offset
        await lab.create("u", 6)
        assert (await lab.fetch(-1)).end_offset == lab.image.offset > third.end_offset


@on_virtual_time
async def test_answers_are_cut_into_whole_batches() -> None:
    lab = ControllerLab()
    async with lab.controller(replace(CONFIG, metadata_fetch_bytes_max=600)):
        await lab.join(1)
        for number in range(20):
            await lab.create(f"t{number}", 1)
        offset, answers = 0, 0
        while offset < lab.image.offset:
            response = await lab.fetch(offset)
            assert 0 < len(response.data) <= 600
            offset, answers = response.end_offset, answers + 1
        assert answers > 4


@on_virtual_time
async def test_a_higher_epoch_deposes_us_and_a_lower_one_does_not() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        await lab.join(1)
        answered = await lab.fetch(-1, epoch=0)
        assert (answered.error_code, answered.controller_epoch, answered.controller_id) == (0, 1, 99)
        assert controller.newer_epoch == -1
        waiting = asyncio.ensure_future(lab.fetch(lab.image.offset, wait_ms=10_000))
        await asyncio.sleep(0.1)
        deposed = await lab.fetch(-1, epoch=5)
        assert deposed.error_code == ErrorCode.NOT_CONTROLLER and not deposed.data
        assert controller.gone.is_set() and controller.newer_epoch == 5
        with pytest.raises(ControllerGone):
            await ask(controller, create(topic("t")))
        await lab.log.delete_records(0)
        lab.log.wake()
        assert (await waiting).error_code == ErrorCode.NOT_CONTROLLER


@on_virtual_time
async def test_who_waits_is_answered_when_the_controller_closes() -> None:
    lab = ControllerLab()
    async with lab.controller() as controller:
        waiting = asyncio.ensure_future(lab.fetch(lab.image.offset, wait_ms=30_000))
        await asyncio.sleep(1)
        await controller.close()
        assert (await waiting).error_code == ErrorCode.NOT_CONTROLLER
        assert lab.now_s < 2


@on_virtual_time
async def test_a_store_that_fails_is_told() -> None:
    lab = ControllerLab()
    async with lab.controller():

        async def fail(offset: int, length_bytes_max: int) -> object:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the store is down")

        lab.log.read = fail  # type: ignore[method-assign, assignment]
        response = await lab.fetch(0)
        assert response.error_code == ErrorCode.KAFKA_STORAGE_ERROR and response.error_message == "the store is down"
        assert response.controller_epoch == 1
