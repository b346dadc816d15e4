"""A node's standing with the controller: registered, let in, reported, suspected, refused, let go."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any
from uuid import UUID

import pytest

from bmq.election.election import ControllerClaim
from bmq.membership.registration import Registration, RegistrationRefused, Reports
from bmq.membership.settings import ClusterSettings
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.internal_messages import PartitionReport, ReportPartitionsResponse
from bmq.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from bmq.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from bmq.protocol.messages.broker_registration_response import BrokerRegistrationResponse
from tests.unit.broker.world import virtual
from tests.unit.internode_client.scripted_links import ScriptedLinks
from tests.unit.internode_client.waiting import until

pytestmark = pytest.mark.unit

QUICK = ClusterSettings(
    heartbeat_interval_ms=2,
    heartbeat_timeout_ms=40,
    registration_timeout_ms=40,
    report_interval_ms=4,
    registration_wait_max_ms=30,
    retry_min_ms=1,
    retry_max_ms=4,
    shutdown_wait_max_ms=500,
)
CLAIM = ControllerClaim(1, "host", 1, 5)


class FakeController:
    """Answers one node. `knows`: the epochs it takes heartbeats of."""

    def __init__(self) -> None:
        self.registrations = 0
        self.knows: set[int] = set()
        self.refuse_with = ErrorCode.NONE
        self.is_hung = False
        self.has_caught_up_from = 0
        self.partitions_left = 0
        self.heartbeats: list[Any] = []
        self.reports: list[Any] = []

    async def register(self, node_id: int, request: Any) -> BrokerRegistrationResponse:
        await self._hang()
        if self.refuse_with:
            return BrokerRegistrationResponse(error_code=self.refuse_with)
        self.registrations += 1
        self.knows = {self.registrations * 10}
        return BrokerRegistrationResponse(broker_epoch=self.registrations * 10)

    async def heartbeat(self, node_id: int, request: Any) -> BrokerHeartbeatResponse:
        await self._hang()
        self.heartbeats.append(request)
        if request.broker_epoch not in self.knows:
            return BrokerHeartbeatResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
        should_stop = request.want_shut_down and self.partitions_left == 0
        self.partitions_left = max(0, self.partitions_left - request.want_shut_down)
        return BrokerHeartbeatResponse(
            is_fenced=request.current_metadata_offset < self.has_caught_up_from, should_shut_down=should_stop
        )

    async def report(self, node_id: int, request: Any) -> ReportPartitionsResponse:
        self.reports.append(request)
        return ReportPartitionsResponse()

    async def _hang(self) -> None:
        if self.is_hung:
            await asyncio.Event().wait()


class Setting:
    def __init__(self, settings: ClusterSettings) -> None:
        self.controller = FakeController()
        self.claim: ControllerClaim | None = CLAIM
        self.offset = 0
        self.suspected: list[ControllerClaim] = []
        self.confirmed = self.restarted = 0
        self.links = ScriptedLinks(
            BROKER_REGISTRATION=self.controller.register,
            BROKER_HEARTBEAT=self.controller.heartbeat,
            REPORT_PARTITIONS=self.controller.report,
        )
        self.registration = Registration(
            BrokerRegistrationRequest(broker_id=7, cluster_id="c", incarnation_id=UUID(int=9)),
            self.links,  # type: ignore[arg-type]
            lambda: self.claim,
            lambda: self.offset,
            Reports(lambda: [PartitionReport(topic_id=UUID(int=3), high_watermark=8)], self._confirm, self._restart),
            self.suspected.append,
            settings,
            Random(1),
        )

    def _confirm(self) -> None:
        self.confirmed += 1

    def _restart(self) -> None:
        self.restarted += 1

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, pause_s=0.001)


@asynccontextmanager
async def running(settings: ClusterSettings = QUICK) -> AsyncIterator[Setting]:
    setting = Setting(settings)
    task = asyncio.create_task(setting.registration.run())
    try:
        yield setting
    finally:
        task.cancel()
        await asyncio.wait({task})
        if setting.registration.failed.done():
            setting.registration.failed.exception()


async def test_it_registers_beats_and_reports() -> None:
    async with running() as setting:
        await setting.registration.unfenced.wait()
        await setting.until(lambda: len(setting.controller.heartbeats) > 3 and setting.confirmed)
        assert setting.controller.registrations == 1
        assert setting.controller.reports[0].node_epoch == setting.registration.epoch == 10
        assert setting.suspected == []


def test_slow_answers_do_not_make_heartbeats_rare() -> None:
    """A loaded cluster: an exchange that takes longer than the interval is followed by the next one at once."""
    answer_s, began = 0.4, list[float]()

    async def beat() -> None:
        settings = ClusterSettings(heartbeat_interval_ms=500, report_interval_ms=500)
        async with running(settings) as setting:
            loop, controller = asyncio.get_running_loop(), setting.controller

            async def heartbeat(node_id: int, request: Any) -> BrokerHeartbeatResponse:
                began.append(loop.time())
                await asyncio.sleep(answer_s)
                return await controller.heartbeat(node_id, request)

            async def report(node_id: int, request: Any) -> ReportPartitionsResponse:
                await asyncio.sleep(answer_s)
                return await controller.report(node_id, request)

            setting.links.answers[ApiKey.BROKER_HEARTBEAT] = heartbeat
            setting.links.answers[ApiKey.REPORT_PARTITIONS] = report
            await asyncio.sleep(10)

    virtual(beat)
    pauses = [later - earlier for earlier, later in itertools.pairwise(began)]
    assert len(pauses) > 10 and min(pauses) >= 0.5 - 1e-6
    assert max(pauses) <= 2 * answer_s + 0.01, pauses


async def test_the_next_controller_is_told_everything_at_once() -> None:
    async with running(
        ClusterSettings(report_interval_ms=3_600_000, heartbeat_interval_ms=2, retry_min_ms=1)
    ) as setting:
        await setting.until(lambda: setting.confirmed == 1)
        assert setting.restarted == 1
        setting.claim = ControllerClaim(2, "host", 1, 6)
        await setting.until(lambda: setting.confirmed == 2)
        assert setting.restarted == 2


async def test_it_is_let_in_when_its_image_has_caught_up() -> None:
    async with running() as setting:
        setting.controller.has_caught_up_from = 6
        await setting.until(lambda: len(setting.controller.heartbeats) > 3)
        assert not setting.registration.is_unfenced
        setting.offset = 6
        await setting.registration.unfenced.wait()


async def test_it_registers_again_where_it_is_not_known() -> None:
    async with running() as setting:
        await setting.registration.unfenced.wait()
        setting.controller.knows = set()
        await setting.until(lambda: setting.controller.registrations == 2)
        await setting.until(lambda: setting.registration.is_unfenced)
        requests = setting.links.asked(ApiKey.BROKER_REGISTRATION)
        assert {request.incarnation_id for request in requests} == {UUID(int=9)}


@pytest.mark.parametrize("is_hung", [True, False])
async def test_a_controller_that_is_gone_or_hangs_is_suspected(is_hung: bool) -> None:
    async with running() as setting:
        await setting.registration.unfenced.wait()
        if is_hung:
            setting.controller.is_hung = True
        else:
            setting.links.down = {1}
        await setting.until(lambda: setting.suspected)
        assert setting.suspected[0] == CLAIM
        setting.controller.is_hung = False
        setting.links.down = set()
        beats = len(setting.controller.heartbeats)
        await setting.until(lambda: len(setting.controller.heartbeats) > beats)
        assert setting.controller.registrations == 1


async def test_a_lost_connection_is_looked_into_at_once() -> None:
    async with running(ClusterSettings(heartbeat_interval_ms=3_600_000, retry_min_ms=1, retry_max_ms=4)) as setting:
        await setting.registration.unfenced.wait()
        setting.links.down = {1}
        await setting.until(lambda: setting.links.lost_callbacks)
        setting.links.lost_callbacks[-1]()
        await setting.until(lambda: setting.suspected)


async def test_without_a_controller_it_waits() -> None:
    async with running() as setting:
        await setting.registration.unfenced.wait()
        setting.claim = None
        await setting.until(lambda: True)
        beats = len(setting.links.calls)
        setting.claim = ControllerClaim(1, "host", 1, 6)
        setting.registration.send_soon()
        await setting.until(lambda: len(setting.links.calls) > beats)


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (ErrorCode.DUPLICATE_BROKER_REGISTRATION, "node 7 is registered by another live process.*--node-id"),
        (ErrorCode.INCONSISTENT_CLUSTER_ID, "belongs to cluster c.*--zookeeper"),
        (ErrorCode.UNSUPPORTED_VERSION, "run a newer bmq"),
        (ErrorCode.INVALID_REQUEST, "refuses node 7: INVALID_REQUEST"),
    ],
)
async def test_a_refusal_ends_in_a_sentence(code: ErrorCode, sentence: str) -> None:
    async with running() as setting:
        setting.controller.refuse_with = code
        with pytest.raises(RegistrationRefused, match=sentence):
            await asyncio.wait_for(asyncio.shield(setting.registration.failed), 5)


async def test_a_duplicate_that_dies_in_time_is_waited_for() -> None:
    async with running(ClusterSettings(retry_min_ms=1, retry_max_ms=2)) as setting:
        setting.controller.refuse_with = ErrorCode.DUPLICATE_BROKER_REGISTRATION
        await setting.until(lambda: len(setting.links.calls) > 3)
        setting.controller.refuse_with = ErrorCode.NONE
        await setting.registration.unfenced.wait()


async def test_it_stops_when_its_partitions_have_moved() -> None:
    async with running() as setting:
        await setting.registration.unfenced.wait()
        setting.controller.partitions_left = 5
        await setting.registration.shut_down()
        assert setting.controller.partitions_left == 0
        assert setting.registration.may_stop.is_set()


async def test_it_does_not_wait_for_controllers_that_are_gone() -> None:
    settings = replace(QUICK, shutdown_wait_max_ms=60_000, shutdown_silence_max_ms=50)
    async with running(settings) as setting:
        await setting.registration.unfenced.wait()
        setting.controller.partitions_left = 10**9
        setting.controller.is_hung = True
        async with asyncio.timeout(10):
            await setting.registration.shut_down()
        assert not setting.registration.may_stop.is_set()


async def test_what_has_just_begun_is_reported_soon() -> None:
    settings = replace(QUICK, report_interval_ms=3_600_000, report_interval_min_ms=1)
    async with running(settings) as setting:
        await setting.registration.unfenced.wait()
        await until(lambda: len(setting.controller.reports) == 1)
        setting.registration.report_soon()
        await until(lambda: len(setting.controller.reports) == 2)


async def test_it_does_not_wait_for_ever_to_be_let_go() -> None:
    settings = ClusterSettings(shutdown_wait_max_ms=20, retry_min_ms=1, heartbeat_interval_ms=2)
    async with running(settings) as setting:
        await setting.registration.unfenced.wait()
        setting.controller.partitions_left = 10**9
        await setting.registration.shut_down()
        assert not setting.registration.may_stop.is_set()


async def test_whether_the_controller_is_heard_is_what_its_next_answer_says() -> None:
    settings = replace(QUICK, heartbeat_interval_ms=3_600_000, heartbeat_timeout_ms=3_600_000)
    async with running(settings) as setting:
        await until(lambda: setting.registration.is_unfenced)
        assert await setting.registration.hears(CLAIM.epoch)
        assert not await setting.registration.hears(CLAIM.epoch + 1)
        setting.controller.is_hung = True
        assert not await setting.registration.hears(CLAIM.epoch)
