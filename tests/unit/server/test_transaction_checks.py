"""Checks of open transactions by posts to a server on this machine, and by records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.broker.half_checker import NobodyAsked
from bmq.coordinator.transactions.check_back import CheckPolicy, TransactionName
from bmq.coordinator.transactions.checker import CheckAnswers, TransactionCheck
from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.server.half_checks import CheckPosts
from bmq.server.transaction_checks import ApplicationChecker
from tests.fakes.clock import FakeClock
from tests.unit.server.test_half_checks import answer, posting, serving

pytestmark = pytest.mark.unit

CHECKS = [
    TransactionCheck(f"pay-{number}", TransactionName(7 + number, 3, 1_700), 60_000, 1, (number,))
    for number in range(3)
]
TOPIC = UUID(int=5)


class Ids:
    """Check ids by producer id; an error for those that it does not know of."""

    def __init__(self, ids: dict[int, str | None]) -> None:
        self.ids = ids
        self.asked: list[tuple[str, int, Sequence[int]]] = []

    async def find(self, topic: str, name: TransactionName, numbers: Sequence[int]) -> str | None:
        self.asked.append((topic, name.producer_id, numbers))
        if name.producer_id not in self.ids:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return self.ids[name.producer_id]


class Appender:
    def __init__(self) -> None:
        self.records: list[tuple[int, Record]] = []

    async def append(self, place: TopicPartition, records: list[Record]) -> int:
        assert place.topic_id == TOPIC
        self.records += [(place.partition, record) for record in records]
        return 0


def checker(
    posts: CheckPosts | None = None, ids: Ids | None = None, appender: Appender | None = None, enabled: str = "true"
) -> ApplicationChecker:
    topic = SimpleNamespace(
        name="checks", topic_id=TOPIC, partitions=(0, 1), is_internal=False, configs={TOPIC_CONFIG: enabled}
    )
    image = SimpleNamespace(topics={"checks": topic})
    return ApplicationChecker(
        cast(CheckPosts, posts), cast(Any, ids), lambda: cast(Any, image), cast(Any, appender), FakeClock(1_234)
    )


async def take() -> list[TransactionCheck]:
    return CHECKS


async def nothing() -> list[TransactionCheck]:
    return []


async def test_transactions_are_asked_about_together(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def decide(request: bytes) -> bytes:
        seen.append(json.loads(request.partition(b"\r\n\r\n")[2]))
        assert b"bmq-signature: t=" in request
        return answer(200, b'{"commit": ["pay-2"], "rollback": ["pay-0"]}')

    async with serving(decide) as port, posting(tmp_path) as posts:
        policy = CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/")
        assert await checker(posts).ask(policy, take) == CheckAnswers({"pay-0": False, "pay-2": True}, ["pay-1"])
        asked = seen[0]["transactions"]
        assert [(one["transactional_id"], one["id"]) for one in asked] == [(f"pay-{n}", None) for n in range(3)]
        assert await checker(posts).ask(policy, nothing) == CheckAnswers({})
        assert len(seen) == 1


async def test_those_without_a_check_id_are_not_asked_about(tmp_path: Path) -> None:
    async def decide(request: bytes) -> bytes:
        (one,) = json.loads(request.partition(b"\r\n\r\n")[2])["transactions"]
        assert (one["transactional_id"], one["id"]) == ("pay-1", "order-1")
        return answer(200, b'{"commit": ["pay-0", "pay-1"]}')

    ids = Ids({8: "order-1", 9: None})
    async with serving(decide) as port, posting(tmp_path) as posts:
        policy = CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/", id_topic="ids")
        assert await checker(posts, ids).ask(policy, take) == CheckAnswers({"pay-1": True}, [])
        assert ids.asked == [("ids", 7, (0,)), ("ids", 8, (1,)), ("ids", 9, (2,))]
        ids.ids = {}
        assert await checker(posts, ids).ask(policy, take) == CheckAnswers({}), "nobody is asked"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/latest/meta-data", "metadata services"),
        ("http://10.0.0.1/", "does not name"),
    ],
)
async def test_what_may_not_be_asked_is_not(tmp_path: Path, url: str, words: str) -> None:
    taken: list[int] = []

    async def taking() -> list[TransactionCheck]:
        taken.append(1)
        return CHECKS

    async with posting(tmp_path, hosts=("169.254.169.254", "127.0.0.1")) as posts:
        with pytest.raises(NobodyAsked, match=words):
            await checker(posts).ask(CheckPolicy(("pay-",), url=url), taking)
    assert taken == [1], "their times pass all the same"


@pytest.mark.parametrize("status", [302, 500])
async def test_redirects_and_errors_are_no_answer(tmp_path: Path, status: int) -> None:
    async def decide(_: bytes) -> bytes:
        return answer(status, b'{"commit": ["pay-0"]}', b"location: http://127.0.0.1:1/")

    async with serving(decide) as port, posting(tmp_path) as posts:
        with pytest.raises(KafkaError, match=f"status {status}"):
            await checker(posts).ask(CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/"), take)


async def test_a_service_that_hangs_is_left_after_the_timeout(tmp_path: Path) -> None:
    hangs = asyncio.Event()

    async def decide(_: bytes) -> bytes:
        await hangs.wait()
        return b""

    async with serving(decide) as port, posting(tmp_path, timeout_s=0.2) as posts:
        with pytest.raises(KafkaError, match=r"did not answer within 0\.2 s"):
            await checker(posts).ask(CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/"), take)
        hangs.set()


async def test_a_record_for_each_check() -> None:
    appender = Appender()
    policy = CheckPolicy(("pay-",), topic="checks", id_topic="ids")
    assert await checker(None, Ids({7: "order-0", 8: "order-1"}), appender).ask(policy, take) == CheckAnswers({})
    assert [(partition, record.key) for partition, record in appender.records] == [(1, b"order-0"), (0, b"order-1")]
    assert appender.records[0][1].headers == (
        ("bmq-transaction-id", b"pay-0"),
        ("bmq-transaction-producer", b"7,3"),
        ("bmq-transaction-started", b"1700"),
        ("bmq-transaction-number", b"1"),
    )
    appender.records.clear()
    await checker(None, None, appender).ask(CheckPolicy(("pay-",), topic="checks"), take)
    assert [record.key for _, record in appender.records] == [b"pay-0", b"pay-1", b"pay-2"]


async def test_records_go_only_into_topics_that_take_them() -> None:
    for policy, made, words in (
        (CheckPolicy(("pay-",), topic="other"), checker(), "does not exist"),
        (CheckPolicy(("pay-",), topic="checks"), checker(enabled="false"), "is not true"),
    ):
        with pytest.raises(NobodyAsked, match=words):
            await made.ask(policy, take)
