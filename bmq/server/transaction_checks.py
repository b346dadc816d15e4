"""Asks about open transactions of ids that opted in, by HTTP or by records. Implements the coordinator's port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from bmq.broker.half_checker import NobodyAsked
from bmq.coordinator.transactions.check_back import CheckPolicy
from bmq.coordinator.transactions.checker import CheckAnswers, Take, TransactionCheck
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.log.transaction_answers import ID, NUMBER, PRODUCER, STARTED
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.request_context import by_itself
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.target import target_of
from bmq.proxy.transaction_check_ids import CheckIds
from bmq.server.check_posts import transactions_answer, transactions_body
from bmq.server.dead_letters import RecordIo
from bmq.server.half_checks import CheckPosts

RECORD_CHECKS_MAX: Final = 4
"""Appends of checks by records that are on their way at the same time."""
LOOKED_UP_MAX: Final = 8
"""Check ids of one request that are read at the same time."""
LOOK_UP_S: Final = 5.0
"""How long the check ids of one request are read."""

_Checks = list[tuple[TransactionCheck, str | None]]


def transaction_checks(
    transactions: TransactionCoordinator,
    posts: CheckPosts,
    image: Callable[[], MetadataImage],
    io: RecordIo,
    clock: Clock,
) -> None:
    """From now on the coordinator has open transactions asked about."""
    ids = CheckIds(image, io.partitions, io.shared, io.opener)
    transactions.use_checker(ApplicationChecker(posts, ids, image, io.appender, clock))


class LocalDecisions:
    """Implements bmq.proxy.transaction_answers.TransactionDecisions in a process that owns all ids."""

    def __init__(self, transactions: TransactionCoordinator) -> None:
        self._transactions = transactions

    async def decide(self, request: TransactionDecideRequest) -> TransactionDecideResponse:
        return await self._transactions.decide(request, by_itself(ApiKey.TRANSACTION_DECIDE))


class ApplicationChecker:
    """Implements bmq.coordinator.transactions.checker.TransactionChecker."""

    def __init__(
        self,
        posts: CheckPosts,
        ids: CheckIds,
        image: Callable[[], MetadataImage],
        appender: RecordAppender,
        clock: Clock,
    ) -> None:
        self._posts = posts
        self._ids = ids
        self._image = image
        self._appender = appender
        self._clock = clock
        self._room = asyncio.Semaphore(RECORD_CHECKS_MAX)

    async def ask(self, policy: CheckPolicy, take: Take) -> CheckAnswers:
        """As TransactionChecker.ask."""
        return await (self._by_post if policy.url else self._by_record)(policy, take)

    async def _by_post(self, policy: CheckPolicy, take: Take) -> CheckAnswers:
        asked: _Checks = []

        async def body() -> bytes | None:
            asked.extend(await self._named(policy, await take()))
            return transactions_body(asked) if asked else None

        answered = await self._posts.post(policy.url, body)
        if answered is None:
            return CheckAnswers({})
        return transactions_answer(*answered, [one.transactional_id for one, _ in asked])

    async def _by_record(self, policy: CheckPolicy, take: Take) -> CheckAnswers:
        async with self._room:
            checks = await take()
            try:
                topic = target_of(self._image(), policy.topic, creates=False)
            except KafkaError as error:
                raise NobodyAsked(str(error)) from error
            assert topic is not None
            for one, check_id in await self._named(policy, checks):
                await self._append(topic, one, check_id)
        return CheckAnswers({})

    async def _append(self, topic: TopicImage, check: TransactionCheck, check_id: str | None) -> None:
        partition = check.name.producer_id % len(topic.partitions)
        record = check_record(check, check_id, self._clock.now_ms())
        try:
            await self._appender.append(TopicPartition(topic.topic_id, partition), [record])
        except KafkaError as error:
            raise KafkaError(error.code, f"topic {topic.name}, partition {partition}: {error}") from error

    async def _named(self, policy: CheckPolicy, checks: Sequence[TransactionCheck]) -> _Checks:
        """Each with its check id; where ids are asked for, those without one are left out."""
        if not policy.id_topic:
            return [(one, None) for one in checks]
        slots = asyncio.Semaphore(LOOKED_UP_MAX)

        async def named(one: TransactionCheck) -> tuple[TransactionCheck, str] | None:
            async with slots:
                try:
                    found = await self._ids.find(policy.id_topic, one.name, one.id_partitions)
                except BmqError:
                    return None  # the next check tries again
            return None if found is None else (one, found)

        tasks = [asyncio.ensure_future(named(one)) for one in checks]
        if not tasks:
            return []
        try:
            done, _ = await asyncio.wait(tasks, timeout=LOOK_UP_S)
        finally:
            for task in tasks:
                task.cancel()
        return [found for task in tasks if task in done and (found := task.result()) is not None]


def check_record(check: TransactionCheck, check_id: str | None, now_ms: int) -> Record:
    """The record that asks about a transaction."""
    name = check.name
    headers: list[tuple[str, bytes | None]] = [
        (ID, check.transactional_id.encode("utf-8", "surrogatepass")),
        (PRODUCER, b"%d,%d" % (name.producer_id, name.producer_epoch)),
        (STARTED, b"%d" % name.start_ms),
        (NUMBER, b"%d" % check.number),
    ]
    key = check.transactional_id if check_id is None else check_id
    return Record(key.encode("utf-8", "surrogatepass"), None, tuple(headers), timestamp_ms=now_ms)
