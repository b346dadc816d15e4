"""What was told of a transactional id's producers, and who may still write after which of them was told what."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf

from bmq.coordinator.transactions.transaction import MAX_EPOCH
from bmq.protocol.error_codes import ErrorCode
from tests.simulation.history import Violation

# Nothing is carried out later than this after it was given up: clients' lateness, and what a paused node keeps of it.
LATE_MAX_S = 40.0


@dataclass(frozen=True, slots=True)
class Known:
    """What of an id everybody had heard at one time: its producer ids with their highest epochs, and those it had before."""

    newest: Mapping[int, int]
    retired: frozenset[int]


@dataclass(slots=True)
class Attempt:
    """One InitProducerId; it may be carried out from `asked_s` to `ended_s`."""

    client: str
    asked_s: float
    known_before: Known
    ended_s: float = inf
    is_lost: bool = False


@dataclass(slots=True)
class Claim:
    """What one client was told last: it writes as this producer."""

    client: str
    asked_s: float
    producer_id: int
    epoch: int


class TransactionalId:
    """All clients that ever used one id, one after the other, or one against the other. `now`: seconds.

    `last_epoch`: the highest that a client may be told; behind it comes another producer id.
    """

    def __init__(self, name: str, now: Callable[[], float], last_epoch: int) -> None:
        self.name = name
        self.refused_count = 0
        self._now = now
        self._last_epoch = last_epoch
        self._newest: dict[int, int] = {}  # producer id -> the highest epoch anybody was told
        self._retired: set[int] = set()  # producer ids that were known before somebody was told another one
        self._fences: dict[int, int] = {}  # producer id -> the highest epoch that InitProducerId gave
        self._fenced: set[int] = set()  # producer ids that were known before InitProducerId gave another one
        self._holders: dict[tuple[int, int], str] = {}  # (producer id, epoch) -> client
        self._attempts: list[Attempt] = []
        self._decided: set[tuple[int, int]] = (
            set()
        )  # (producer id, epoch) whose transaction a coordinator was told to end

    # --- InitProducerId

    def ask(self, client: str) -> Attempt:
        """It is about to be sent."""
        attempt = Attempt(client, self._now(), self.known())
        self._attempts.append(attempt)
        return attempt

    def lost(self, attempt: Attempt) -> None:
        """It was given up, and may be carried out yet."""
        attempt.is_lost, attempt.ended_s = True, self._now() + LATE_MAX_S

    def failed(self, attempt: Attempt) -> None:
        """It was answered with an error. The timeout of a log does not take back what was written to it."""
        attempt.ended_s = self._now() + LATE_MAX_S

    def told(self, attempt: Attempt, producer_id: int, epoch: int) -> Claim:
        attempt.ended_s = self._now()
        known = attempt.known_before
        self._check(attempt.client, producer_id, epoch, known)
        self._fences[producer_id] = max(self._fences.get(producer_id, -1), epoch)
        self._fenced |= known.newest.keys() - {producer_id}
        return Claim(attempt.client, attempt.asked_s, producer_id, epoch)

    # --- EndTxn 5

    def known(self) -> Known:
        """Nobody who asks from now on may be told an epoch that is not above these, or a retired producer id."""
        return Known(dict(self._newest), frozenset(self._retired))

    def bumped(self, claim: Claim, producer_id: int, epoch: int, known_before: Known) -> None:
        """The end of a transaction gave this epoch. `known_before`: `known` when it was asked for."""
        self._check(claim.client, producer_id, epoch, known_before)
        claim.producer_id, claim.epoch = producer_id, epoch

    @property
    def rotations(self) -> int:
        """How often it was given another producer id."""
        return len(self._retired)

    def _check(self, client: str, producer_id: int, epoch: int, known: Known) -> None:
        told = f"epoch {epoch} of producer {producer_id} of {self.name}"
        if producer_id in known.retired:
            raise Violation(f"{client} was given {told}, which had another producer id by then")
        holder = self._holders.setdefault((producer_id, epoch), client)
        if holder != client:
            raise Violation(f"both {holder} and {client} were given {told}")
        if not known.newest.get(producer_id, -1) < epoch <= self._last_epoch:
            raise Violation(f"{client} was given {told} after {known.newest.get(producer_id, -1)}")
        others = known.newest.keys() - {producer_id}
        if others and self._last_epoch == MAX_EPOCH:
            raise Violation(f"{self.name} has the producer ids {min(others)} and {producer_id}")
        self._retired |= others
        self._newest[producer_id] = max(self._newest.get(producer_id, -1), epoch)

    # --- fencing

    def is_fenced(self, claim: Claim) -> bool:
        """Another client was told a later epoch: nothing that this one sends from now on may be carried out."""
        return claim.producer_id in self._fenced or claim.epoch < self._fences.get(claim.producer_id, -1)

    def passed(self, claim: Claim, was_fenced: bool, what: str) -> None:
        """It was acknowledged. `was_fenced`: when it was sent for the first time."""
        if was_fenced:
            raise Violation(
                f"{what} of {claim.client} at epoch {claim.epoch} of producer {claim.producer_id} passed; "
                f"{self.name} is at {self._fences}"
            )

    def decided(self, producer_id: int, epoch: int) -> None:
        """The application tells the coordinator how this producer's transaction ends, so the producer may be fenced."""
        self._decided.add((producer_id, epoch))

    def refused(self, claim: Claim, code: int, started_s: float | None, timeout_s: float) -> None:
        """A client was told that it is not the id's producer any more. That has a reason: another client, the timeout, or
        what the application said.

        `started_s`: when its transaction may have begun; None: it has none.
        """
        self.refused_count += 1
        is_late = started_s is not None and self._now() - started_s >= timeout_s
        has_rival = any(
            attempt.ended_s >= claim.asked_s and (attempt.client != claim.client or attempt.is_lost)
            for attempt in self._attempts
        )
        is_decided = (claim.producer_id, claim.epoch) in self._decided
        if not is_late and not has_rival and not is_decided:
            raise Violation(
                f"{claim.client} was told {ErrorCode(code).name} at epoch {claim.epoch} of {self.name}, "
                f"and nobody else had asked for it"
            )
