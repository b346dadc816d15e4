"""The database of an application that writes in transactions, and how it answers a coordinator that asks back.

A client commits its database before its transaction, so what the database says is the truth about a client that died in between. An
answer may be late, lost or refused; one that is rolled back is so for its client too. In some seeds a client produces the answers, and what was
acknowledged to it has to hold. In some the last record of a transaction names it by a check id, in the others producer id and epoch do.

The nodes' own checkers ask: posts alone are simulated. A question names an open transaction of an id that opted in, as its client named it, and none
that had ended when the checks of its post were taken.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any, NamedTuple

from bmq.coordinator.transactions.check_back import TransactionName
from bmq.log.transaction_answers import ANSWER, ID, PRODUCER, STARTED
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages import produce_request
from bmq.server.half_check_settings import HalfCheckSettings
from tests.simulation.clients import PRODUCE_VERSIONS, Address, Client, expect, now_ms
from tests.simulation.history import Violation
from tests.simulation.producer_epochs import Claim, TransactionalId
from tests.simulation.transaction_history import Ending, Transaction, TransactionHistory

ANSWERS, CHECK_IDS = "answers", "checkids"
URL = "http://application.invalid/"
PREFIXES = ("w", "m", "o", "copy")
"""Of transactional ids that opt in."""


class Row(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(slots=True)
class Entry:
    """A transaction in the database. `may_come_again`: requests of it that were given up may open another one with its epoch.

    `asked_s`: when questions about it came, `ended_s`: when its client, or the one that answered, had heard of its end.
    """

    transaction: Transaction
    identity: TransactionalId
    claim: Claim
    row: Row = Row.OPEN
    asked_s: list[float] = field(default_factory=list)
    ended_s: float | None = None
    may_come_again: bool = False
    was_asked: asyncio.Event = field(default_factory=asyncio.Event)


class Database:
    """Its transactions by name, and the last one of each producer id and epoch. `now`: seconds."""

    def __init__(self, history: TransactionHistory, now: Callable[[], float], has_check_ids: bool) -> None:
        self.has_check_ids = has_check_ids
        self.asked_count = 0
        self._now = now
        self._entries: dict[str, Entry] = {}
        self._last: dict[tuple[str, int, int], Entry] = {}
        self._committed: list[Transaction] = []
        history.on_end = self._ended

    def begin(self, identity: TransactionalId, claim: Claim, transaction: Transaction) -> None:
        entry = Entry(transaction, identity, Claim(claim.client, claim.asked_s, claim.producer_id, claim.epoch))
        self._entries[transaction.name] = entry
        self._last[identity.name, claim.producer_id, claim.epoch] = entry

    def entry_of(self, transaction: Transaction) -> Entry:
        return self._entries[transaction.name]

    def _ended(self, transaction: Transaction) -> None:
        entry = self._entries.get(transaction.name)
        if entry is not None and entry.ended_s is None:
            entry.ended_s = self._now()

    def commit(self, transaction: Transaction) -> bool:
        """False: it was rolled back, and can only be aborted."""
        entry = self._entries[transaction.name]
        if entry.row is Row.ROLLED_BACK:
            return False
        entry.row = Row.COMMITTED
        transaction.ask()
        self._committed.append(transaction)
        return True

    def asked(self, question: Question, since_s: float) -> Entry | None:
        """What it is about; None: the producer has begun nothing with this epoch yet. `since_s`: its post began to take checks then."""
        self.asked_count += 1
        claimed = question.transactional_id, question.name.producer_id, question.name.producer_epoch
        entry = self._last.get(claimed) if question.check_id is None else self._entries.get(question.check_id)
        if not question.transactional_id.startswith(PREFIXES):
            raise Violation(f"{question} is about an id that has not opted in")
        if (question.check_id is not None) != self.has_check_ids:
            raise Violation(f"{question} is named otherwise than its client has named it")
        if entry is None:
            if self.has_check_ids:
                raise Violation(f"{question} has a check id that nobody wrote")
            return None
        if claimed != (entry.identity.name, entry.claim.producer_id, entry.claim.epoch):
            raise Violation(f"{question} has the check id of {entry.identity.name} at {entry.claim}")
        if entry.ended_s is not None and entry.ended_s < since_s and not entry.may_come_again:
            raise Violation(
                f"{question} came at {since_s:.3f} s, and {entry.transaction.name} had ended at {entry.ended_s:.3f} s"
            )
        entry.asked_s.append(self._now())
        entry.was_asked.set()
        return entry

    def answer(self, entry: Entry, *, rolls_back: bool) -> bool | None:
        """Whether it is committed; None: nobody knows yet. `rolls_back`: what is open is rolled back now."""
        if entry.row is Row.OPEN and rolls_back:
            entry.row = Row.ROLLED_BACK
        if entry.row is Row.OPEN:
            return None
        entry.identity.decided(entry.claim.producer_id, entry.claim.epoch)
        return entry.row is Row.COMMITTED

    @property
    def committed_without_their_client(self) -> int:
        """Transactions that were seen as committed, and whose client has never heard so."""
        return sum(one.ending is Ending.ASKED and one.seen is not None for one in self._committed)


class Question(NamedTuple):
    """`check_id`: None: there are none."""

    transactional_id: str
    name: TransactionName
    check_id: str | None


class Answer(NamedTuple):
    """What the database said about the transaction with this name."""

    transactional_id: str
    name: TransactionName
    is_commit: bool
    transaction: Transaction


class Answerer(Client):
    """Produces answers, each until it is taken or refused."""

    def __init__(self, name: str, address: Address, rng: random.Random, history: TransactionHistory) -> None:
        super().__init__(name, address, rng)
        self._history = history
        self.acknowledged_count = 0

    async def run(self, answers: asyncio.Queue[Answer]) -> None:
        while True:
            answer = await answers.get()
            if not await self.until_done(partial(self._send, answer)):
                continue
            self.acknowledged_count += 1
            if answer.is_commit:
                self._history.committed(answer.transaction)
            else:
                self._history.aborted(answer.transaction)

    async def _send(self, answer: Answer) -> bool:
        """False: it is refused."""
        name = answer.name
        headers = (
            (ID, answer.transactional_id.encode()),
            (PRODUCER, b"%d,%d" % (name.producer_id, name.producer_epoch)),
            (STARTED, b"%d" % name.start_ms),
            (ANSWER, b"commit" if answer.is_commit else b"rollback"),
        )
        batch = encode_batch([Record(None, None, headers, timestamp_ms=now_ms())])
        data = produce_request.PartitionProduceData(index=0, records=bytes(batch))
        topic = produce_request.TopicProduceData(name=ANSWERS, partition_data=[data])
        request = produce_request.ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic])
        said = await self.request(ApiKey.PRODUCE, self.rng.choice(PRODUCE_VERSIONS), request)
        result = said.responses[0].partition_responses[0]
        expect(result.error_code, ErrorCode.INVALID_RECORD)
        return bool(result.error_code == ErrorCode.NONE)


class Application:
    """What the posts of all nodes reach. `failure` gets the first violation. `calm`: nothing is lost any more."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self.database = database
        self.by_records: asyncio.Queue[Answer] | None = asyncio.Queue() if dice.random() < 0.5 else None
        self.failure: asyncio.Future[None] | None = None
        self.answer_count = 0
        self.room_s = 0.0
        """How long each post waits for room."""
        self._dice = dice
        self._delay_s = dice.choice((0.01, 0.3, 2.0))
        self._lost_rate = dice.choice((0.0, 0.1, 0.3))
        self._rollback_rate = dice.choice((0.0, 0.1, 0.5))

    def be_calm(self) -> None:
        """Nothing is lost or decided against its client any more. Posts may have to wait longer than a new instance does."""
        self._lost_rate = self._rollback_rate = 0.0
        self._delay_s = min(self._delay_s, 0.3)
        self.room_s = self._dice.choice((0.0, 0.0, 12.0))

    async def answer(self, data: bytes, since_s: float) -> tuple[int, bytes]:
        """Status and body. Raises KafkaError. `since_s`: when the post began to take its checks."""
        questions = [_question(one) for one in json.loads(data)["transactions"]]
        entries = [self._asked(one, since_s) for one in questions]
        await self._on_the_way()
        answers = [
            (question, entry, self.database.answer(entry, rolls_back=self._dice.random() < self._rollback_rate))
            for question, entry in zip(questions, entries, strict=True)
            if entry is not None
        ]
        await self._on_the_way()
        said = {question.transactional_id: is_commit for question, _, is_commit in answers if is_commit is not None}
        self.answer_count += len(said)
        if self.by_records is None:
            commit, rollback = ([one for one in said if said[one] is which] for which in (True, False))
            return 200, json.dumps({"commit": commit, "rollback": rollback}).encode()
        for question, entry, is_commit in answers:
            if is_commit is not None:
                self.by_records.put_nowait(
                    Answer(question.transactional_id, question.name, is_commit, entry.transaction)
                )
        return (202 if said else self._dice.choice((202, 204))), b""

    def _asked(self, question: Question, since_s: float) -> Entry | None:
        try:
            return self.database.asked(question, since_s)
        except Violation as violation:
            if self.failure is not None and not self.failure.done():
                self.failure.set_exception(violation)
            raise

    async def _on_the_way(self) -> None:
        await asyncio.sleep(self._dice.expovariate(1 / self._delay_s))
        if self._dice.random() < self._lost_rate:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the question or its answer is lost")


def _question(one: dict[str, Any]) -> Question:
    name = TransactionName(one["producer_id"], one["producer_epoch"], one["started_ms"])
    return Question(one["transactional_id"], name, one["id"])


class SimulatedPosts:
    """Implements bmq.server.transaction_checks.Posts for one incarnation of a node."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._room = asyncio.Semaphore(HalfCheckSettings().posts_per_url_max)

    async def post(
        self, text: str, body: Callable[[], Awaitable[bytes | None]], on_post: Callable[[], None]
    ) -> tuple[int, bytes] | None:
        """As Posts.post."""
        assert text == URL
        async with self._room:
            await asyncio.sleep(self._application.room_s)
            since_s = asyncio.get_running_loop().time()
            data = await body()
            if data is None:
                return None
            on_post()
            try:
                async with asyncio.timeout(HalfCheckSettings().timeout_s):
                    return await self._application.answer(data, since_s)
            except TimeoutError:
                raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the application does not answer") from None


def check_settings(has_check_ids: bool) -> dict[str, str]:
    """Broker configs."""
    return {
        "bmq.transaction.check.ids": ",".join(PREFIXES),
        "bmq.transaction.check.url": URL,
        "bmq.transaction.check.before.ms": "20000",
        "bmq.transaction.check.id.topic": CHECK_IDS if has_check_ids else "",
        "bmq.transaction.check.interval.ms": "1000",
    }
