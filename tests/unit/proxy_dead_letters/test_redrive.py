"""Redrives: which dead letters are delivered again, where to, how fast, and from where after an end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from random import Random
from unittest.mock import patch
from uuid import UUID

import pytest

from bmq.admin.orders import OrderRefused
from bmq.admin.redrives import CANCELLED, MOVED, Redrives
from bmq.admin.tasks import TaskState
from bmq.log.timers.retry_letters import DeadRetry
from bmq.metadata.image import TopicImage
from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import DeadLetterTerms, DeadReason, DeadRecords
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.dead_letters.letters import letters_of
from bmq.proxy.dead_letters.redrive import RedriveCounts, RedriveOrder, Redriver, RedriveRefused
from bmq.proxy.dead_letters.redrive_filter import LetterFilter, letter_of, progress_group, redriven
from bmq.proxy.dead_letters.retry_letters import RetryLetterProducer
from tests.unit.proxy_dead_letters.letter_cluster import LETTERS_ID, NAME, LetterCluster
from tests.unit.proxy_fetch.cluster import TOPIC_ID

pytestmark = pytest.mark.unit

RETRY_ID = UUID(int=0xE1)
QUIET: Callable[[RedriveCounts], None] = lambda counts: None  # noqa: E731


class FakeProgress:
    def __init__(self) -> None:
        self.offsets: dict[tuple[str, int], int] = {}

    async def read(self, group_id: str, topic: TopicImage) -> Sequence[int]:
        return [self.offsets.get((group_id, number), -1) for number in range(len(topic.partitions))]

    async def write(self, group_id: str, topic: TopicImage, partition: int, offset: int) -> None:
        self.offsets[group_id, partition] = offset


class Redriving:
    """Topic "retry" of two partitions beside those of LetterCluster; group "g" names "dlq.t"."""

    def __init__(self, cluster: LetterCluster) -> None:
        self.cluster = cluster
        cluster.add("retry", RETRY_ID, 2, is_on=False)
        cluster.change(group_configs={"g": {"errors.deadletterqueue.topic.name": NAME}})
        self.progress = FakeProgress()
        clock = cluster.fetch_cluster.services.clock
        self.redriver = Redriver(
            lambda: cluster.image, cluster.logs, cluster.reader, cluster.appender, self.progress, clock
        )
        self.is_active = True
        self.redrives = Redrives(self.redriver, clock, Random(1), lambda: self.is_active)

    async def write(
        self,
        count: int,
        *,
        partition: int = 0,
        group_id: str = "g",
        is_copying: bool = True,
        reason: DeadReason = DeadReason.REJECTED,
    ) -> None:
        """Dead letters of that many new records."""
        first = self.cluster.log(partition).high_watermark
        for number in range(first, first + count):
            self.cluster.produce([Record(b"k%d" % number, b"v%d" % number, [("h", b"1")])], partition)
        terms = DeadLetterTerms(NAME, is_copying)
        dead = DeadRecords(group_id, TOPIC_ID, partition, first, first + count - 1, 2, reason, terms)
        assert await self.cluster.producer.write(dead) == first + count

    def values(self, topic_id: UUID = RETRY_ID, partition: int = 0) -> list[bytes | None]:
        return [record.value for record in self.cluster.letters(partition, topic_id)]


@pytest.fixture
def redriving(cluster: LetterCluster) -> Redriving:
    return Redriving(cluster)


async def test_records_are_as_they_were_and_say_where_they_come_from(redriving: Redriving) -> None:
    await redriving.write(3, partition=1)
    counts = await redriving.redriver.run(RedriveOrder("g", "retry"), QUIET)
    assert (counts.redriven, counts.others, counts.without_copy) == (3, 0, 0)
    first, *_ = redriving.cluster.letters(1, RETRY_ID)
    assert (first.key, first.value) == (b"k0", b"v0")
    assert list(first.headers) == [("h", b"1"), ("bmq-redriven-from", b"dlq.t-1-0")]
    again = await redriving.redriver.run(RedriveOrder("g", "retry"), QUIET)
    assert (again.redriven, again.total) == (0, 0), "each is delivered once"
    await redriving.write(1, partition=1)
    assert (await redriving.redriver.run(RedriveOrder("g", "retry"), QUIET)).redriven == 1
    everything = await redriving.redriver.run(RedriveOrder("g", "retry", is_from_start=True), QUIET)
    assert everything.redriven == 4


async def test_to_the_source_only_where_that_is_said(redriving: Redriving) -> None:
    await redriving.write(2, partition=3)
    await redriving.redriver.run(RedriveOrder("g", None), QUIET)
    assert redriving.values(TOPIC_ID, 3) == [b"v0", b"v1", b"v0", b"v1"]


async def test_dead_letters_of_a_retry_topic_go_back_into_it(redriving: Redriving) -> None:
    """A classic group has no config that names their topic."""
    cluster = redriving.cluster
    cluster.add("dlq.app", UUID(int=0xA9), 1)
    cluster.add("orders.retry.app", UUID(int=0xAA), 2, is_on=False)
    producer = RetryLetterProducer(
        lambda: cluster.image,
        cluster.appender,
        cluster.fetch_cluster.services.clock,
        cluster.create_topics,
        lambda: cluster.settings,
    )
    headers = [("bmq-original-topic", b"orders")]
    assert await producer.write("orders.retry.app", 1, [DeadRetry(7, 3, Record(b"k", b"v", headers))]) == 1
    with pytest.raises(RedriveRefused, match="names no topic of dead letters"):
        redriving.redriver.letters_topic(RedriveOrder("another", None))
    counts = await redriving.redriver.run(RedriveOrder("app", None), QUIET)
    assert (counts.redriven, counts.others) == (1, 0)
    (again,) = cluster.letters(1, UUID(int=0xAA))
    assert (again.key, again.value) == (b"k", b"v")
    assert list(again.headers) == [*headers, ("bmq-redriven-from", b"dlq.app-0-0")], "its attempts count anew"


async def test_what_is_not_a_dead_letter_of_the_group_or_has_no_copy_stays(redriving: Redriving) -> None:
    await redriving.write(2)
    await redriving.write(2, group_id="other")
    await redriving.write(1, is_copying=False)
    log = redriving.cluster.log(0, LETTERS_ID)
    await redriving.cluster.appender.append(log.topic_partition, [Record(b"k", b"not a letter", [("a", b"b")], 1)])
    counts = await redriving.redriver.run(RedriveOrder("g", "retry"), QUIET)
    assert (counts.redriven, counts.others, counts.without_copy, counts.total) == (2, 3, 1, 6)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (LetterFilter(reason=DeadReason.DELIVERY_COUNT), [b"v2", b"v3"]),
        (LetterFilter(key=b"k1"), [b"v1"]),
        (LetterFilter(topic="t", partition=0), [b"v0", b"v1", b"v2", b"v3"]),
        (LetterFilter(partition=2), []),
        (LetterFilter(topic="u"), []),
        (LetterFilter(to_ms=1), []),
        (LetterFilter(from_ms=1_700_000_000_000, to_ms=1_700_000_000_001), [b"v0", b"v1", b"v2", b"v3"]),
    ],
)
async def test_filters_choose_and_have_their_own_progress(
    redriving: Redriving, wanted: LetterFilter, expected: list[bytes]
) -> None:
    await redriving.write(2)
    await redriving.write(2, reason=DeadReason.DELIVERY_COUNT)
    await redriving.redriver.run(RedriveOrder("g", "retry", wanted=wanted), QUIET)
    assert redriving.values() == expected
    assert {group for group, _ in redriving.progress.offsets} == {progress_group("g", wanted)}
    assert progress_group("g", wanted) != progress_group("g", LetterFilter()) == "bmq-redrive.g"


async def test_a_dry_run_writes_nothing(redriving: Redriving) -> None:
    await redriving.write(5)
    counts = await redriving.redriver.run(RedriveOrder("g", "retry", is_dry_run=True), QUIET)
    assert (counts.redriven, counts.share_done) == (5, 1.0)
    assert redriving.values() == [] and not redriving.progress.offsets


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (RedriveOrder("h", "retry"), "group h names no topic of dead letters"),
        (RedriveOrder("g", "retry", "dlq.none"), "topic dlq.none does not exist"),
        (RedriveOrder("g", "none"), "topic none does not exist"),
        (RedriveOrder("g", NAME), "has the dead letters themselves"),
        (RedriveOrder("g", "__x"), "topic __x is internal"),
    ],
)
async def test_orders_that_are_refused(redriving: Redriving, order: RedriveOrder, why: str) -> None:
    redriving.cluster.add("__x", UUID(int=0xE2), 1)
    await redriving.write(1)
    with pytest.raises(RedriveRefused, match=why):
        await redriving.redriver.run(order, QUIET)
    with pytest.raises(OrderRefused, match=why):
        redriving.redrives.begin(order)


async def test_a_redrive_keeps_its_rate_and_goes_on_after_a_cancel(redriving: Redriving) -> None:
    await redriving.write(40)
    task = redriving.redrives.begin(RedriveOrder("g", "retry", records_per_s=10))
    with pytest.raises(OrderRefused, match="has to end first"):
        redriving.redrives.begin(RedriveOrder("g", "retry"))
    while task.progress < 0.25:
        version = task.version
        await redriving.redrives.tasks.changed(task, version, 10)
    began_s = asyncio.get_running_loop().time()
    while task.progress < 0.5:
        version = task.version
        await redriving.redrives.tasks.changed(task, version, 10)
    assert asyncio.get_running_loop().time() - began_s > 0.5, "ten records take a second"
    assert redriving.redrives.cancel(task.task_id).error == CANCELLED
    assert task.state is TaskState.FAILED and redriving.redrives.cancel(task.task_id) is task
    await redriving.redrives.close()
    again = redriving.redrives.begin(RedriveOrder("g", "retry", records_per_s=100_000))
    while again.is_running:
        await redriving.redrives.tasks.changed(again, again.version, 10)
    assert again.error is None and again.progress == 1.0
    assert redriving.values() == [b"v%d" % number for number in range(40)], "each once, in order"


async def test_a_redrive_ends_when_the_controller_moves_or_an_append_fails(redriving: Redriving) -> None:
    await redriving.write(3)
    redriving.is_active = False
    task = redriving.redrives.begin(RedriveOrder("g", "retry"))
    while task.is_running:
        await redriving.redrives.tasks.changed(task, task.version, 10)
    assert task.error == MOVED and redriving.values() == []
    redriving.is_active = True
    redriving.cluster.log(0, RETRY_ID).refuse_with = ErrorCode.RECORD_LIST_TOO_LARGE
    task = redriving.redrives.begin(RedriveOrder("g", "retry"))
    while task.is_running:
        await redriving.redrives.tasks.changed(task, task.version, 10)
    assert task.error is not None and "RECORD_LIST_TOO_LARGE" in task.error and not redriving.progress.offsets


async def failing_once(redriving: Redriving, code: ErrorCode) -> list[str]:
    """Runs a redrive of two records of which each step fails once; the steps that were tried again, in order."""
    failed: list[str] = []

    def once(owner: object, name: str) -> AbstractContextManager[object]:
        step = getattr(owner, name)

        async def run(*arguments: object) -> object:
            if name not in failed:
                failed.append(name)
                raise KafkaError(code, f"{name} failed")
            return await step(*arguments)

        return patch.object(owner, name, run)

    cluster = redriving.cluster
    steps = [(redriving.progress, "read"), (cluster.logs, "leader_of"), (redriving.progress, "write")]
    with ExitStack() as stack:
        for owner, name in (*steps, (cluster.appender, "append")):
            stack.enter_context(once(owner, name))
        counts = await redriving.redriver.run(RedriveOrder("g", "retry"), QUIET)
    assert counts.redriven == 2
    return failed


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR])
async def test_partitions_and_coordinators_that_move_do_not_end_it(redriving: Redriving, code: ErrorCode) -> None:
    await redriving.write(2)
    assert await failing_once(redriving, code) == ["read", "leader_of", "append", "write"]
    assert redriving.values() == [b"v0", b"v1"], "each is written once"


async def test_an_append_that_may_have_been_written_is_not_tried_again(redriving: Redriving) -> None:
    await redriving.write(2)
    with pytest.raises(KafkaError, match="read failed"):
        await failing_once(redriving, ErrorCode.REQUEST_TIMED_OUT)


async def test_what_does_not_pass_ends_it(redriving: Redriving, monkeypatch: pytest.MonkeyPatch) -> None:
    await redriving.write(2)
    monkeypatch.setattr("bmq.proxy.dead_letters.redrive.RETRY_MAX_S", 0.05)
    redriving.cluster.log(0, RETRY_ID).refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        await redriving.redriver.run(RedriveOrder("g", "retry"), QUIET)
    assert not redriving.progress.offsets


def test_a_record_that_dies_again_is_redriven_with_one_trace() -> None:
    terms = DeadLetterTerms(NAME)
    dead = DeadRecords("g", TOPIC_ID, 0, 7, 7, 2, DeadReason.REJECTED, terms)
    record = Record(b"k", b"v", [("a", b"1"), ("bmq-redriven-from", b"dlq.t-0-3")], 5, 7)
    made = letters_of(dead, "retry", {7: record}, 8, 9, batch_bytes_max=10_000, bytes_wanted=10_000)
    letter = letter_of(made.records[0])
    assert letter is not None and letter.has_copy and (letter.topic, letter.offset) == ("retry", 7)
    again = redriven(made.records[0]._replace(offset=11), letter, NAME, 2, 20)
    assert again == Record(b"k", b"v", [("a", b"1"), ("bmq-redriven-from", b"dlq.t-2-11")], 20)


@pytest.mark.parametrize("headers", [[], [("a", b"1")] * 6, [("__dlq.errors.topic", b"t")]])
def test_other_records_are_no_dead_letters(headers: list[tuple[str, bytes | None]]) -> None:
    assert letter_of(Record(b"k", b"v", headers)) is None
