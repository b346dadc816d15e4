"""The port by which the coordinator asks applications about open transactions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    """`decided`: whether it commits, by transactional id. `left_undecided`: ids of which it was said that nobody knows yet."""

    decided: Mapping[str, bool]
    left_undecided: Sequence[str] = ()


Take = Callable[[], Awaitable[Sequence[TransactionCheck]]]


class TransactionChecker(Protocol):
    """One for a process. It bounds how many requests are on their way at once."""

    async def ask(self, policy: CheckPolicy, take: Take) -> CheckAnswers:
        """Call `take` when there is room for a request, and send what it returns.

        Raises BmqError: it was not sent, there was no answer, or what `take` raises.
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
