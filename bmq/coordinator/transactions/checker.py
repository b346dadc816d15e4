"""The port by which the coordinator asks applications about open transactions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from bmq.coordinator.transactions.check_back import CheckPolicy, TransactionName


class TransactionCheck(NamedTuple):
    """`number`: 1 and up. `id_partitions`: of the policy's `id_topic`; the record with the check id is in one of them."""

    transactional_id: str
    name: TransactionName
    timeout_ms: int
    number: int
    id_partitions: tuple[int, ...]


class CheckAnswers(NamedTuple):
    """`decided`: whether it commits, by transactional id. `left_undecided`: ids of which it was said that nobody knows yet.
    `not_asked`: ids that could not be asked about this time.
    """

    decided: Mapping[str, bool]
    left_undecided: Sequence[str] = ()
    not_asked: Sequence[str] = ()


class CheckRound(Protocol):
    """The checks of one shard that go into one request."""

    async def take(self) -> Sequence[TransactionCheck]:
        """Those that are due now. Call it once, when there is room for a request. Raises BmqError."""

    def asked(self, checks: Iterable[TransactionCheck]) -> None:
        """Say of each that is asked about when it is: a post begins, or its record is in the log."""

    def left_undecided(self, transactional_ids: Iterable[str]) -> None:
        """Say of those that have nothing to be asked by, whatever becomes of the request for others."""


class TransactionChecker(Protocol):
    """One for a process. It bounds how many requests are on their way at once."""

    async def ask(self, policy: CheckPolicy, checks: CheckRound) -> CheckAnswers:
        """Take checks, and send them.

        Raises BmqError: none was sent, there was no answer, or what `take` raises.
        """


class Checks:
    """What all shards of a coordinator share; all of it may change. `checker`: None: nobody is asked."""

    __slots__ = ("checker", "is_on", "policy")

    def __init__(self) -> None:
        self.policy = CheckPolicy()
        self.is_on = False
        self.checker: TransactionChecker | None = None

    def use(self, policy: CheckPolicy) -> None:
        self.policy = policy
        self.is_on = policy.is_on
