"""Subscribe: one stream of records to one subscriber, by its credit."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import grpc

from bmq.gateway.calls import Calls
from bmq.gateway.failure import GatewayFailed, invalid
from bmq.gateway.groups import Groups
from bmq.gateway.held_records import HeldRecord
from bmq.gateway.plain_source import open_plain
from bmq.gateway.principal import Principal
from bmq.gateway.source import Settlement, Source
from bmq.gateway.status import STATUS_NUMBERS
from bmq.gateway.subscriber import Subscriber
from bmq.gateway.subscription import Subscription, subscription_of
from bmq.gateway.v1 import gateway_pb2

SETTLED_PER_MESSAGE_MAX: Final = 10_000
DELIVERIES_IN_ROOM: Final = 16
"""One delivery takes no more than this part of the room that is free."""
ANSWERS_MAX: Final = 64
"""A subscriber with more answers that it has not taken is not read."""
_GONE: Final = "the delivery is settled already, or went to another subscriber after its time"
_HOW: Final = {
    "acknowledge": Settlement.ACKNOWLEDGE,
    "release": Settlement.RELEASE,
    "reject": Settlement.REJECT,
}


class SubscriberService:
    """The service `bmq.gateway.v1.Subscriber`."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def subscribe(self, _requests: Any, context: Any) -> None:
        """Ends when the client half-closes, cancels or goes away."""
        async with self._calls.admitted(context, "Subscribe") as principal:
            start_wait_s = principal.settings.start_wait_max_ms / 1000
            try:
                first = await asyncio.wait_for(context.read(), start_wait_s)
            except TimeoutError:
                raise GatewayFailed("DEADLINE_EXCEEDED", f"no Start came within {start_wait_s:g} s") from None
            if first is grpc.aio.EOF:
                return
            if first.WhichOneof("request") != "start":
                raise invalid("the first message has to be Start")
            subscription = subscription_of(first.start, topics_max=principal.settings.topics_max)
            with self._calls.metrics.subscribers.track_inprogress():
                await _Stream(self._calls, principal, context).run(subscription, first.start.credit)


class _Stream:
    """One subscriber's stream: a task that reads what it says, and this one that writes."""

    def __init__(self, calls: Calls, principal: Principal, context: Any) -> None:
        self._metrics = calls.metrics
        self._principal = principal
        self._settings = principal.settings
        self._context = context
        self._wake = asyncio.Event()
        self._subscriber = Subscriber(self._settings.credit_max, self._wake.set)
        self._answers: list[gateway_pb2.SubscribeResponse] = []
        self._has_ended = False
        self._is_group = False
        self._settling: set[asyncio.Task[None]] = set()
        self._answered = asyncio.Event()

    async def run(self, subscription: Subscription, credit: int) -> None:
        self._subscriber.credit.add(credit)
        self._is_group = bool(subscription.group)
        source: Source
        if subscription.group:
            source = await self._principal.part(Groups).join(subscription, self._subscriber)
        else:
            source = await open_plain(self._principal, subscription, self._subscriber)
        reading: asyncio.Task[None] | None = None
        try:
            await self._write(
                gateway_pb2.SubscribeResponse(started=gateway_pb2.Started(group_kind=_kind(subscription)))
            )
            source.wanted_changed()
            reading = asyncio.ensure_future(self._read(source))
            await self._deliver(source)
        finally:
            if reading is not None:
                reading.cancel()
            await source.close()

    async def _deliver(self, source: Source) -> None:
        subscriber = self._subscriber
        while True:
            if subscriber.failure is not None:
                raise subscriber.failure
            while self._answers:
                await self._write(self._answers.pop(0))
                self._answered.set()
            if self._has_ended and not self._settling and (self._is_group or subscriber.credit.records == 0):
                return
            wanted = subscriber.wanted
            records = source.poll(wanted, self._delivery_bytes_max()) if wanted > 0 else ()
            if records:
                await self._send(records)
                continue
            subscriber.is_waiting = True
            await self._wake.wait()
            self._wake.clear()
            subscriber.is_waiting = False

    def _delivery_bytes_max(self) -> int:
        """Less while others hold most of the room: so those that take nothing leave some to the others."""
        free = self._principal.shared.deliveries.budget.free_bytes
        return min(self._settings.delivery_bytes_max, max(1, free // DELIVERIES_IN_ROOM))

    async def _send(self, records: Sequence[HeldRecord]) -> None:
        subscriber = self._subscriber
        subscriber.credit.spend(len(records))
        size = sum(record.size_bytes for record in records)
        deliver = subscriber.deliveries.deliver
        room = self._principal.shared.deliveries
        ids = [deliver(record) for record in records] if self._is_group else [0] * len(records)
        await room.take(size)
        try:
            messages = [record.as_message(number) for record, number in zip(records, ids, strict=True)]
            await self._write(gateway_pb2.SubscribeResponse(delivery=gateway_pb2.Delivery(records=messages)))
        finally:
            room.give_back(size)
        self._metrics.delivered.inc(len(records))

    async def _write(self, message: gateway_pb2.SubscribeResponse) -> None:
        wait_s = self._settings.write_wait_max_ms / 1000
        try:
            async with asyncio.timeout(wait_s):
                await self._context.write(message)
        except TimeoutError:
            raise GatewayFailed("DEADLINE_EXCEEDED", f"the subscriber took nothing for {wait_s:g} s") from None

    async def _read(self, source: Source) -> None:
        try:
            while (request := await self._context.read()) is not grpc.aio.EOF:
                self._take(request, source)
                while len(self._answers) + len(self._settling) > ANSWERS_MAX:
                    self._answered.clear()
                    await self._answered.wait()
        except GatewayFailed as failed:
            self._subscriber.fail(failed)
        except grpc.aio.UsageError:  # the call has ended
            pass
        self._has_ended = True
        self._wake.set()

    def _take(self, request: gateway_pb2.SubscribeRequest, source: Source) -> None:
        kind = request.WhichOneof("request")
        if kind == "credit":
            if request.credit.records == 0:
                raise invalid("a credit of 0 records says nothing; send a number above 0")
            self._subscriber.credit.add(request.credit.records)
        elif kind in _HOW:
            self._settle(_HOW[kind], getattr(request, kind).delivery_ids, source)
        elif kind == "start":
            raise invalid("Start came twice; open another stream for another subscription")
        else:
            raise invalid("the message says nothing this gateway knows")
        source.wanted_changed()

    def _settle(self, how: Settlement, ids: Sequence[int], source: Source) -> None:
        """An id that was never delivered ends the stream, and nothing of the request counts."""
        if not ids:
            raise invalid(f"{how.name.lower()} names no delivery")
        if len(ids) > SETTLED_PER_MESSAGE_MAX:
            raise invalid(f"the message settles {len(ids)} deliveries, {SETTLED_PER_MESSAGE_MAX} are allowed")
        if not self._is_group:
            raise invalid("a subscription without a group has nothing to settle; name a group in start.group")
        held, gone = self._subscriber.deliveries.settle(ids)
        task = asyncio.ensure_future(self._settled(how, held, gone, source))
        self._settling.add(task)
        task.add_done_callback(self._end_settling)

    def _end_settling(self, task: asyncio.Task[None]) -> None:
        self._settling.discard(task)
        self._answered.set()
        self._wake.set()

    async def _settled(
        self, how: Settlement, held: Sequence[tuple[int, HeldRecord]], gone: Sequence[int], source: Source
    ) -> None:
        """An answer for each outcome."""
        results = await source.settle(how, [record for _, record in held])
        done = [number for (number, _), failure in zip(held, results, strict=True) if failure is None]
        if done:
            self._metrics.settled.labels(how.name.lower()).inc(len(done))
            self._answers.append(gateway_pb2.SubscribeResponse(settled=gateway_pb2.Settled(delivery_ids=done)))
        failed: dict[tuple[str, str], list[int]] = {}
        if gone:
            failed["FAILED_PRECONDITION", _GONE] = list(gone)
        for (number, _), failure in zip(held, results, strict=True):
            if failure is not None:
                failed.setdefault((failure.status, str(failure)), []).append(number)
        for (status, sentence), numbers in failed.items():
            told = gateway_pb2.NotSettled(delivery_ids=numbers, code=STATUS_NUMBERS[status], message=sentence)
            self._answers.append(gateway_pb2.SubscribeResponse(not_settled=told))


def _kind(subscription: Subscription) -> gateway_pb2.GroupKind:
    if not subscription.group:
        return gateway_pb2.GROUP_KIND_UNSPECIFIED
    return gateway_pb2.GROUP_KIND_SHARE if subscription.is_share_group else gateway_pb2.GROUP_KIND_CONSUMER
