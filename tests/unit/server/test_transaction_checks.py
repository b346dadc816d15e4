"""Checks of open transactions by posts to a server on this machine, and by records."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from bmq.broker.half_checker import NobodyAsked
from bmq.coordinator.transactions.check_back import CheckPolicy, TransactionName
from bmq.coordinator.transactions.checker import CheckAnswers, TransactionCheck
from bmq.coordinator.transactions.shard_checks import CHECKS_MAX
from bmq.log.partition_log import TopicPartition
from bmq.protocol.batch_records import Record
from bmq.protocol.dead_letters import TOPIC_CONFIG
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.server import transaction_checks
from bmq.server.check_posts import CheckPosts
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
    """`errors`: of partitions. `hangs`: partitions that do not answer. `takes`: whether a batch is small enough."""

    def __init__(self, errors: Mapping[int, KafkaError] | None = None, hangs: Collection[int] = ()) -> None:
        self.takes: Callable[[list[Record]], bool] = lambda _: True
        self.code = ErrorCode.MESSAGE_TOO_LARGE
        self.refused = 0
        self.records: list[tuple[int, Record]] = []
        self._errors = errors or {}
        self._hangs = hangs

    @property
    def keys(self) -> dict[int, list[bytes | None]]:
        """By partition."""
        partitions = dict.fromkeys(partition for partition, _ in self.records)
        return {number: [record.key for one, record in self.records if one == number] for number in partitions}

    async def append(self, place: TopicPartition, records: list[Record]) -> int:
        assert place.topic_id == TOPIC
        if place.partition in self._errors:
            raise self._errors[place.partition]
        if place.partition in self._hangs:
            await asyncio.Event().wait()
        if not self.takes(records):
            self.refused += 1
            raise KafkaError(self.code, "a smaller batch")
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


class Round:
    """Implements CheckRound, and remembers which were asked about."""

    def __init__(self, checks: Sequence[TransactionCheck] = CHECKS) -> None:
        self.checks = checks
        self.taken = 0
        self.numbers: list[int] = []
        self.without: list[str] = []

    async def take(self) -> Sequence[TransactionCheck]:
        self.taken += 1
        return self.checks

    def asked(self, checks: Iterable[TransactionCheck]) -> None:
        self.numbers += [one.name.producer_id - 7 for one in checks]

    def left_undecided(self, transactional_ids: Iterable[str]) -> None:
        self.without += transactional_ids


async def test_transactions_are_asked_about_together(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def decide(request: bytes) -> bytes:
        seen.append(json.loads(request.partition(b"\r\n\r\n")[2]))
        assert b"bmq-signature: t=" in request
        return answer(200, b'{"commit": ["pay-2"], "rollback": ["pay-0"]}')

    async with serving(decide) as port, posting(tmp_path) as posts:
        policy = CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/")
        checks = Round()
        assert await checker(posts).ask(policy, checks) == CheckAnswers({"pay-0": False, "pay-2": True}, ["pay-1"], [])
        assert checks.numbers == [0, 1, 2]
        asked = seen[0]["transactions"]
        assert [(one["transactional_id"], one["id"]) for one in asked] == [(f"pay-{n}", None) for n in range(3)]
        assert await checker(posts).ask(policy, Round(())) == CheckAnswers({}, [], [])
        assert len(seen) == 1


async def test_those_without_a_check_id_are_not_asked_about(tmp_path: Path) -> None:
    async def decide(request: bytes) -> bytes:
        (one,) = json.loads(request.partition(b"\r\n\r\n")[2])["transactions"]
        assert (one["transactional_id"], one["id"]) == ("pay-1", "order-1")
        return answer(200, b'{"commit": ["pay-0", "pay-1"]}')

    ids = Ids({8: "order-1", 9: None})
    async with serving(decide) as port, posting(tmp_path) as posts:
        policy = CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/", id_topic="ids")
        checks = Round()
        answers = await checker(posts, ids).ask(policy, checks)
        assert answers == CheckAnswers({"pay-1": True}, [], ["pay-0"]), "it is not found yet"
        assert checks.without == ["pay-2"], "there is none"
        assert checks.numbers == [1]
        assert ids.asked == [("ids", 7, (0,)), ("ids", 8, (1,)), ("ids", 9, (2,))]
        ids.ids = {}
        checks = Round()
        assert await checker(posts, ids).ask(policy, checks) == CheckAnswers({}, [], ["pay-0", "pay-1", "pay-2"])
        assert (checks.numbers, checks.without) == ([], []), "nobody is asked"


async def test_those_without_a_check_id_do_not_wait_for_a_service_or_a_topic_that_fails(tmp_path: Path) -> None:
    async def decide(_: bytes) -> bytes:
        return answer(500, b"")

    ids = Ids({7: "order-0", 8: "order-1", 9: None})
    full = Appender({number: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "it is full") for number in (0, 1)})
    async with serving(decide) as port, posting(tmp_path) as posts:
        for policy, words in (
            (CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/", id_topic="ids"), "status 500"),
            (CheckPolicy(("pay-",), topic="checks", id_topic="ids"), "it is full"),
        ):
            checks = Round()
            with pytest.raises(KafkaError, match=words):
                await checker(posts, ids, full).ask(policy, checks)
            assert checks.without == ["pay-2"]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/latest/meta-data", "metadata services"),
        ("http://10.0.0.1/", "does not name"),
    ],
)
async def test_what_may_not_be_asked_is_not(tmp_path: Path, url: str, words: str) -> None:
    checks = Round()
    async with posting(tmp_path, hosts=("169.254.169.254", "127.0.0.1")) as posts:
        with pytest.raises(NobodyAsked, match=words):
            await checker(posts).ask(CheckPolicy(("pay-",), url=url), checks)
    assert (checks.taken, checks.numbers) == (1, []), "their times pass all the same"


@pytest.mark.parametrize("status", [302, 500])
async def test_redirects_and_errors_are_no_answer(tmp_path: Path, status: int) -> None:
    async def decide(_: bytes) -> bytes:
        return answer(status, b'{"commit": ["pay-0"]}', b"location: http://127.0.0.1:1/")

    async with serving(decide) as port, posting(tmp_path) as posts:
        with pytest.raises(KafkaError, match=f"status {status}"):
            await checker(posts).ask(CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/"), Round())


async def test_a_service_that_hangs_is_left_after_the_timeout(tmp_path: Path) -> None:
    hangs = asyncio.Event()

    async def decide(_: bytes) -> bytes:
        await hangs.wait()
        return b""

    async with serving(decide) as port, posting(tmp_path, timeout_s=0.2) as posts:
        with pytest.raises(KafkaError, match=r"did not answer within 0\.2 s"):
            await checker(posts).ask(CheckPolicy(("pay-",), url=f"http://127.0.0.1:{port}/"), Round())
        hangs.set()


async def test_a_record_for_each_check() -> None:
    appender = Appender()
    policy = CheckPolicy(("pay-",), topic="checks", id_topic="ids")
    checks = Round()
    answers = await checker(None, Ids({7: "order-0", 8: "order-1"}), appender).ask(policy, checks)
    assert answers == CheckAnswers({}, [], ["pay-2"]) and sorted(checks.numbers) == [0, 1]
    assert [(partition, record.key) for partition, record in appender.records] == [(1, b"order-0"), (0, b"order-1")]
    assert appender.records[0][1].headers == (
        ("bmq-transaction-id", b"pay-0"),
        ("bmq-transaction-producer", b"7,3"),
        ("bmq-transaction-started", b"1700"),
        ("bmq-transaction-number", b"1"),
    )
    appender.records.clear()
    await checker(None, None, appender).ask(CheckPolicy(("pay-",), topic="checks"), Round())
    assert appender.keys == {1: [b"pay-0", b"pay-2"], 0: [b"pay-1"]}


async def test_a_partition_that_takes_no_check_does_not_keep_others_from_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = CheckPolicy(("pay-",), topic="checks")
    refusing = Appender({1: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "it is full")})
    checks = Round()
    answers = await checker(None, None, refusing).ask(policy, checks)
    assert answers == CheckAnswers({}, [], ["pay-0", "pay-2"]) and checks.numbers == [1]
    assert refusing.keys == {0: [b"pay-1"]}

    monkeypatch.setattr(transaction_checks, "APPEND_S", 0.1)
    hanging, checks = Appender(hangs={1}), Round()
    answers = await checker(None, None, hanging).ask(policy, checks)
    assert answers == CheckAnswers({}, [], ["pay-0", "pay-2"]) and checks.numbers == [1]

    both = Appender({number: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "it is full") for number in (0, 1)})
    with pytest.raises(KafkaError, match="topic checks, partition 1: it is full"):
        await checker(None, None, both).ask(policy, checks)


async def test_a_partition_that_fails_again_and_again_is_told_once() -> None:
    """A new instance that waits has its check tried each second."""
    policy = CheckPolicy(("pay-",), topic="checks")
    errors = {1: KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, "it is full")}
    made = checker(None, None, Appender(errors))

    async def told() -> list[str]:
        with capture_logs() as logs:
            for _ in range(3):
                await made.ask(policy, Round())
        return [one["reason"] for one in logs if one["event"] == "transactions_not_checked"]

    assert await told() == ["topic checks, partition 1: it is full"]
    assert await told() == []
    error = errors.pop(1)
    assert await told() == []
    errors[1] = error
    assert len(await told()) == 1, "once more"


@pytest.mark.parametrize("code", [ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE])
async def test_checks_go_in_smaller_batches_where_the_topic_takes_no_larger_ones(code: ErrorCode) -> None:
    policy = CheckPolicy(("pay-",), topic="checks")
    many = [
        TransactionCheck(f"pay-{number}", TransactionName(7, 3, number), 60_000, 1, ()) for number in range(CHECKS_MAX)
    ]
    appender = Appender()
    appender.code = code
    appender.takes = lambda records: len(records) <= 3
    made, checks = checker(None, None, appender), Round(many)
    assert await made.ask(policy, checks) == CheckAnswers({}, [], [])
    assert appender.keys == {1: [one.transactional_id.encode() for one in many]} and len(checks.numbers) == len(many)
    refused = appender.refused
    assert await made.ask(policy, Round(many)) == CheckAnswers({}, [], [])
    assert appender.refused == refused, "the size is remembered: each refusal costs a producer id"

    appender.records.clear()
    appender.takes = lambda records: all(record.key != b"pay-1" for record in records)
    checks = Round(many)
    with pytest.raises(KafkaError, match="topic checks, partition 1: a smaller batch"):
        await made.ask(policy, checks)
    assert appender.keys == {1: [one.transactional_id.encode() for one in many if one.transactional_id != "pay-1"]}
    assert len(checks.numbers) == len(many) - 1, "the others are asked about"


async def test_records_go_only_into_topics_that_take_them() -> None:
    for policy, made, words in (
        (CheckPolicy(("pay-",), topic="other"), checker(), "does not exist"),
        (CheckPolicy(("pay-",), topic="checks"), checker(enabled="false"), "is not true"),
    ):
        with pytest.raises(NobodyAsked, match=words):
            await made.ask(policy, Round())
