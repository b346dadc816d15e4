"""Asks about open transactions of ids that opted in, by HTTP or by records. Implements the coordinator's port."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

import structlog

from bmq.broker.half_checker import NobodyAsked
from bmq.coordinator.transactions.check_back import CheckPolicy
from bmq.coordinator.transactions.checker import CheckAnswers, CheckRound, TransactionCheck
from bmq.coordinator.transactions.coordinator import TransactionCoordinator
from bmq.dataclass import dataclass
from bmq.log.clock import Clock
from bmq.log.partition_log import TopicPartition
from bmq.log.transaction_answers import ID, NUMBER, PRODUCER, STARTED
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.request_context import by_itself
from bmq.protocol.transaction_decisions import TransactionDecideRequest, TransactionDecideResponse
from bmq.proxy.dead_letters.record_appends import RecordAppender
from bmq.proxy.dead_letters.target import target_of
from bmq.proxy.transaction_check_ids import CheckIds
from bmq.server.check_bodies import transactions_answer, transactions_body
from bmq.server.dead_letters import RecordIo

RECORD_CHECKS_MAX: Final = 4
"""Appends of checks by records that are on their way at the same time."""
LOOKED_UP_MAX: Final = 8
"""Check ids of one request that are read at the same time."""
LOOK_UP_S: Final = 5.0
"""How long the check ids of one request are read."""

APPEND_S: Final = 5.0
"""How long the checks of one partition of the check topic are written."""

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
"""Refusals of a batch as too large: nothing of it was written, and smaller batches may be."""

_log = structlog.get_logger("bmq.server")

_Checks = list[tuple[TransactionCheck, str | None]]


def transaction_checks(
    transactions: TransactionCoordinator,
    posts: Posts,
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


class Posts(Protocol):
    """CheckPosts implements this."""

    async def post(
        self, text: str, body: Callable[[], Awaitable[bytes | None]], on_post: Callable[[], None]
    ) -> tuple[int, bytes] | None:
        """As CheckPosts.post."""


class ApplicationChecker:
    """Implements bmq.coordinator.transactions.checker.TransactionChecker."""

    def __init__(
        self,
        posts: Posts,
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
        self._targets: dict[TopicPartition, _Target] = {}

    async def ask(self, policy: CheckPolicy, checks: CheckRound) -> CheckAnswers:
        """As TransactionChecker.ask."""
        return await (self._by_post if policy.url else self._by_record)(policy, checks)

    async def _by_post(self, policy: CheckPolicy, checks: CheckRound) -> CheckAnswers:
        named = _Named()

        async def body() -> bytes | None:
            await self._name(named, policy, checks, await checks.take())
            return transactions_body(named.found) if named.found else None

        answered = await self._posts.post(policy.url, body, lambda: checks.asked(one for one, _ in named.found))
        if answered is None:
            return CheckAnswers({}, [], named.not_asked)
        answers = transactions_answer(*answered, [one.transactional_id for one, _ in named.found])
        return CheckAnswers(answers.decided, answers.left_undecided, named.not_asked)

    async def _by_record(self, policy: CheckPolicy, checks: CheckRound) -> CheckAnswers:
        named = _Named()
        async with self._room:
            taken = await checks.take()
            try:
                topic = target_of(self._image(), policy.topic, creates=False)
            except KafkaError as error:
                raise NobodyAsked(str(error)) from error
            assert topic is not None
            await self._name(named, policy, checks, taken)
            by_partition: dict[int, _Checks] = {}
            for one in named.found:
                by_partition.setdefault(one[0].name.producer_id % len(topic.partitions), []).append(one)
            targets = self._targets_of(topic, by_partition)
            failed = await _tried(
                {number: self._append(topic, targets[number], some, checks) for number, some in by_partition.items()}
            )
        if failed and len(failed) == len(by_partition):
            raise next(iter(failed.values()))
        for number, target in targets.items():
            target.told(failed.get(number))
        unwritten = [one.transactional_id for number in failed for one, _ in by_partition[number]]
        return CheckAnswers({}, [], [*named.not_asked, *unwritten])

    def _targets_of(self, topic: TopicImage, numbers: Iterable[int]) -> dict[int, _Target]:
        places = {number: TopicPartition(topic.topic_id, number) for number in numbers}
        known = {place: target for place, target in self._targets.items() if place.topic_id == topic.topic_id}
        self._targets = {place: _Target(place) for place in places.values()} | known
        return {number: self._targets[place] for number, place in places.items()}

    async def _append(self, topic: TopicImage, target: _Target, some: _Checks, checks: CheckRound) -> None:
        """In smaller batches, where the topic takes no larger ones. A record that it does not take alone keeps no others back."""
        now_ms, place = self._clock.now_ms(), target.place
        count, at = target.records_max, 0
        refused: KafkaError | None = None
        while at < len(some):
            part = some[at : at + count]
            try:
                await self._appender.append(place, [check_record(one, check_id, now_ms) for one, check_id in part])
            except KafkaError as error:
                told = KafkaError(error.code, f"topic {topic.name}, partition {place.partition}: {error}")
                if error.code not in _TOO_LARGE:
                    raise told from error
                if len(part) > 1:
                    count = len(part) // 2
                    continue
                refused, count = told, target.records_max  # it is the record that is too large
            else:
                checks.asked(one for one, _ in part)
            at += len(part)
        if refused is not None:
            raise refused
        target.records_max = count

    async def _name(
        self, named: _Named, policy: CheckPolicy, checks: CheckRound, taken: Sequence[TransactionCheck]
    ) -> None:
        """Find the check id of each; where ids are asked for, those without one are not asked about."""
        if not policy.id_topic:
            named.found = [(one, None) for one in taken]
            return
        slots = asyncio.Semaphore(LOOKED_UP_MAX)

        async def look_up(one: TransactionCheck) -> str | None:
            async with slots:
                return await self._ids.find(policy.id_topic, one.name, one.id_partitions)

        tasks = [(one, asyncio.ensure_future(look_up(one))) for one in taken]
        if not tasks:
            return
        try:
            await asyncio.wait([task for _, task in tasks], timeout=LOOK_UP_S)
        finally:
            for _, task in tasks:
                task.cancel()
        without = []
        for one, task in tasks:
            if not task.done() or task.cancelled() or isinstance(task.exception(), BmqError):
                named.not_asked.append(one.transactional_id)  # the next check tries again
            elif (check_id := task.result()) is None:
                without.append(one.transactional_id)
            else:
                named.found.append((one, check_id))
        checks.left_undecided(without)


@dataclass(slots=True)
class _Named:
    """`found`: checks with their ids. `not_asked`: the ids of these transactions are not known yet."""

    found: _Checks = field(default_factory=list)
    not_asked: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Target:
    """A partition of the check topic. `records_max`: of one batch, as far as is known: a batch that is refused costs a producer id."""

    place: TopicPartition
    records_max: int = sys.maxsize
    is_failing: bool = False

    def told(self, failure: KafkaError | None) -> None:
        """A failure goes into the log once, until a check is taken again."""
        if failure is not None and not self.is_failing:
            _log.warning("transactions_not_checked", reason=str(failure))
        self.is_failing = failure is not None


async def _tried(appends: Mapping[int, Coroutine[Any, Any, None]]) -> dict[int, KafkaError]:
    """Errors by partition. An append that takes too long is given up, so that a partition without an owner does not keep others waiting."""
    tasks = {number: asyncio.ensure_future(append) for number, append in appends.items()}
    if not tasks:
        return {}
    try:
        done, _ = await asyncio.wait(tasks.values(), timeout=APPEND_S)
    finally:
        for task in tasks.values():
            task.cancel()
    failed = {}
    for number, task in tasks.items():
        error = task.exception() if task in done else None
        if task not in done:
            why = f"partition {number} did not take a check within {APPEND_S:g} s"
            failed[number] = KafkaError(ErrorCode.REQUEST_TIMED_OUT, why)
        elif isinstance(error, KafkaError):
            failed[number] = error
        elif error is not None:
            raise error
    return failed


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
