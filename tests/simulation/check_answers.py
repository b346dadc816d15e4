"""The database of an application that writes in transactions, and how it answers a coordinator that asks back.

A client commits its database before its transaction, so what the database says is the truth about a client that died in between. An
answer may be late, lost or refused; one that is rolled back is so for its client too. In some seeds a client produces the answers, and what was
acknowledged to it has to hold.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import NamedTuple

from bmq.coordinator.transactions.check_back import CheckPolicy, TransactionName
from bmq.coordinator.transactions.checker import CheckAnswers, Take
from bmq.log.transaction_answers import ANSWER, ID, PRODUCER, STARTED
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages import produce_request
from tests.simulation.clients import PRODUCE_VERSIONS, Address, Client, expect, now_ms
from tests.simulation.producer_epochs import Claim, TransactionalId
from tests.simulation.transaction_history import Ending, Transaction, TransactionHistory

ANSWERS = "answers"
PREFIXES = ("w", "m", "o", "copy")
"""Of transactional ids that opt in."""


class Row(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(slots=True)
class _Entry:
    transaction: Transaction
    identity: TransactionalId
    row: Row = Row.OPEN


class Database:
    """The last transaction of each producer id and epoch."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int, int], _Entry] = {}
        self._committed: list[Transaction] = []

    def begin(self, identity: TransactionalId, claim: Claim, transaction: Transaction) -> None:
        self._entries[identity.name, claim.producer_id, claim.epoch] = _Entry(transaction, identity)

    def commit(self, identity: TransactionalId, claim: Claim, transaction: Transaction) -> bool:
        """False: it was rolled back, and can only be aborted."""
        entry = self._entries[identity.name, claim.producer_id, claim.epoch]
        assert entry.transaction is transaction
        if entry.row is Row.ROLLED_BACK:
            return False
        entry.row = Row.COMMITTED
        transaction.ask()
        self._committed.append(transaction)
        return True

    def answer(self, key: tuple[str, int, int], *, rolls_back: bool) -> bool | None:
        """Whether it is committed; None: nobody knows yet. `rolls_back`: what is open is rolled back now."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.row is Row.OPEN and rolls_back:
            entry.row = Row.ROLLED_BACK
        if entry.row is Row.OPEN:
            return None
        entry.identity.decided(key[1], key[2])
        return entry.row is Row.COMMITTED

    def transaction_of(self, key: tuple[str, int, int]) -> Transaction:
        return self._entries[key].transaction

    @property
    def committed_without_their_client(self) -> int:
        """Transactions that were seen as committed, and whose client has never heard so."""
        return sum(one.ending is Ending.ASKED and one.seen is not None for one in self._committed)


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


class SimulatedChecker:
    """Implements the coordinator's TransactionChecker for all nodes."""

    def __init__(self, database: Database, dice: random.Random) -> None:
        self.by_records: asyncio.Queue[Answer] | None = asyncio.Queue() if dice.random() < 0.5 else None
        self._database = database
        self._dice = dice
        self._delay_s = dice.choice((0.01, 0.3, 2.0))
        self._lost_rate = dice.choice((0.0, 0.1, 0.3))
        self._rollback_rate = dice.choice((0.0, 0.1, 0.5))
        self.answer_count = 0

    async def ask(self, policy: CheckPolicy, take: Take) -> CheckAnswers:
        """As TransactionChecker.ask."""
        checks = await take()
        await self._on_the_way()
        decided, unknown = {}, []
        for check in checks:
            key = check.transactional_id, check.name.producer_id, check.name.producer_epoch
            said = self._database.answer(key, rolls_back=self._dice.random() < self._rollback_rate)
            if said is None:
                unknown.append(check.transactional_id)
            else:
                decided[check.transactional_id] = said
        await self._on_the_way()
        self.answer_count += len(decided)
        if self.by_records is not None:
            for check in checks:
                if check.transactional_id in decided:
                    key = check.transactional_id, check.name.producer_id, check.name.producer_epoch
                    transaction = self._database.transaction_of(key)
                    is_commit = decided[check.transactional_id]
                    self.by_records.put_nowait(Answer(check.transactional_id, check.name, is_commit, transaction))
            return CheckAnswers({})
        return CheckAnswers(decided, unknown if self._dice.random() < 0.5 else ())

    async def _on_the_way(self) -> None:
        await asyncio.sleep(self._dice.expovariate(1 / self._delay_s))
        if self._dice.random() < self._lost_rate:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "the question or its answer is lost")


def check_settings() -> dict[str, str]:
    """Broker configs."""
    return {
        "bmq.transaction.check.ids": ",".join(PREFIXES),
        "bmq.transaction.check.url": "http://application.invalid/",
        "bmq.transaction.check.before.ms": "10000",
        "bmq.transaction.check.interval.ms": "1000",
    }
