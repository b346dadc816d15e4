"""Dead letters of retry topics: their topic, their headers, and what is refused before it is held."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.log.timers.retry_letters import DeadRetry
from bmq.protocol.batch_records import Record
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.proxy.dead_letters import retry_letters
from bmq.proxy.dead_letters.letter_topics import DeadLetterSettings
from bmq.proxy.dead_letters.redrive_filter import letter_of
from bmq.proxy.dead_letters.retry_letters import RetryLetterProducer
from tests.unit.proxy_dead_letters.letter_cluster import LetterCluster

pytestmark = pytest.mark.unit

APP_ID = UUID(int=0xA9)
RETRY = "orders.retry.app"


def producer_of(cluster: LetterCluster) -> RetryLetterProducer:
    return RetryLetterProducer(
        lambda: cluster.image,
        cluster.appender,
        cluster.fetch_cluster.services.clock,
        cluster.create_topics,
        lambda: cluster.settings,
    )


def dead(offset: int, value: bytes = b"v") -> DeadRetry:
    headers = [("kafka_original-offset", b"\0\0\0\0\0\0\0\x07"), ("bmq-original-topic", b"orders")]
    return DeadRetry(offset, 3, Record(b"k", value, headers, 5))


async def test_a_dead_letter_says_where_its_record_was_held_and_has_its_headers(cluster: LetterCluster) -> None:
    cluster.add("dlq.app", APP_ID, 2)
    assert await producer_of(cluster).write(RETRY, 3, [dead(41), dead(43)]) == 2
    assert not cluster.letters(0, APP_ID)
    first, second = cluster.letters(1, APP_ID)
    assert list(first.headers) == [
        ("__dlq.errors.topic", RETRY.encode()),
        ("__dlq.errors.partition", b"3"),
        ("__dlq.errors.offset", b"41"),
        ("__dlq.errors.group", b"app"),
        ("__dlq.errors.delivery.count", b"3"),
        ("__dlq.errors.message", b"Offset delivery count exceeded the threshold."),
        *dead(41).record.headers,
    ]
    assert (first.key, first.value) == (b"k", b"v")
    assert first.timestamp_ms == cluster.fetch_cluster.services.clock.now_ms()
    letter = letter_of(second)
    assert letter is not None and (letter.topic, letter.offset, letter.group_id) == (RETRY, 43, "app")


async def test_as_many_are_written_at_once_as_their_topic_takes_in_a_batch(
    cluster: LetterCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add("dlq.app", APP_ID, 1, max_message_bytes=2_000)
    letters = [dead(number, bytes(700)) for number in range(3)]
    assert await producer_of(cluster).write(RETRY, 0, letters) == 1
    monkeypatch.setattr(retry_letters, "BATCH_BYTES_WANTED", 1)
    assert await producer_of(cluster).write(RETRY, 0, letters[1:]) == 1, "one at least"


async def test_a_missing_topic_is_refused_or_made(cluster: LetterCluster) -> None:
    producer = producer_of(cluster)
    assert producer.refusal(RETRY, 10) == (
        "no further attempt is left, and it cannot be a dead letter: topic dlq.app does not exist, and "
        "errors.deadletterqueue.auto.create.topics.enable is false"
    )
    with pytest.raises(KafkaError, match="does not exist"):
        await producer.write(RETRY, 0, [dead(1)])
    cluster.settings = DeadLetterSettings(creates_topics=True)
    assert producer.refusal(RETRY, 10) is None
    assert await producer.write(RETRY, 0, [dead(1)]) == 1
    assert [one.name for one in cluster.created] == ["dlq.app"]


async def test_a_topic_that_was_not_switched_on_and_a_record_that_is_too_long_are_refused(
    cluster: LetterCluster,
) -> None:
    cluster.add("dlq.app", APP_ID, 1, is_on=False)
    producer = producer_of(cluster)
    assert "errors.deadletterqueue.group.enable is not true" in (producer.refusal(RETRY, 10) or "")
    cluster.add("dlq.app", UUID(int=0xAA), 1, max_message_bytes=10_000)
    assert producer.refusal(RETRY, 7_900) is None
    assert "max.message.bytes of topic dlq.app" in (producer.refusal(RETRY, 7_999) or "")


async def test_names_follow_the_prefix_of_the_servers(cluster: LetterCluster) -> None:
    cluster.settings = DeadLetterSettings(prefix="dead-")
    cluster.add("dead-app", APP_ID, 1)
    assert await producer_of(cluster).write(RETRY, 0, [dead(1)]) == 1
    cluster.settings = DeadLetterSettings(prefix="")
    assert "dlq.app does not exist" in (producer_of(cluster).refusal(RETRY, 10) or "")


async def test_an_error_of_the_append_names_the_place(cluster: LetterCluster) -> None:
    cluster.add("dlq.app", APP_ID, 1)
    cluster.log(0, APP_ID).refuse_with = ErrorCode.INVALID_TIMESTAMP
    with pytest.raises(KafkaError, match=r"topic dlq\.app, partition 0"):
        await producer_of(cluster).write(RETRY, 5, [dead(1)])
