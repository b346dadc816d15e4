"""What was told of a transactional id's producers, and who may still write after which of them was told what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from bmq.protocol.error_codes import ErrorCode
from tests.simulation.history import Violation

# Nothing is carried out later than this after it was given up: clients' lateness, and what a paused node keeps of it.
LATE_MAX_S = 40.0
EPOCH_MAX = 32767  # never leaves the coordinator


@dataclass(slots=True)
class Attempt:
    """One InitProducerId; it may be carried out from `asked_s` to `ended_s`."""

    client: str
    asked_s: float
    known_before: int
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
    """All clients that ever used one id, one after the other, or one against the other. `now`: seconds."""

    def __init__(self, name: str, now: Callable[[], float]) -> None:
        self.name = name
        self.refused_count = 0
        self._now = now
        self._producer_id = -1
        self._newest = -1  # the highest epoch anybody was told
        self._fence = -1  # the highest that InitProducerId gave
        self._holders: dict[int, str] = {}  # epoch -> client
        self._attempts: list[Attempt] = []

    # --- InitProducerId

    def ask(self, client: str) -> Attempt:
        """It is about to be sent."""
        attempt = Attempt(client, self._now(), self._newest)
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
        self._check(attempt.client, producer_id, epoch, attempt.known_before)
        self._fence = max(self._fence, epoch)
        return Claim(attempt.client, attempt.asked_s, producer_id, epoch)

    # --- EndTxn 5

    def known(self) -> int:
        """Nobody who asks from now on may be told an epoch that is not above this."""
        return self._newest

    def bumped(self, claim: Claim, producer_id: int, epoch: int, known_before: int) -> None:
        """The end of a transaction gave this epoch. `known_before`: `known` when it was asked for."""
        self._check(claim.client, producer_id, epoch, known_before)
        claim.producer_id, claim.epoch = producer_id, epoch

    def _check(self, client: str, producer_id: int, epoch: int, known_before: int) -> None:
        if self._producer_id not in (-1, producer_id):
            raise Violation(f"{self.name} has the producer ids {self._producer_id} and {producer_id}")
        self._producer_id = producer_id
        holder = self._holders.setdefault(epoch, client)
        if holder != client:
            raise Violation(f"both {holder} and {client} were given epoch {epoch} of {self.name}")
        if not known_before < epoch < EPOCH_MAX:
            raise Violation(f"{client} was given epoch {epoch} of {self.name} after {known_before}")
        self._newest = max(self._newest, epoch)

    # --- fencing

    def is_fenced(self, claim: Claim) -> bool:
        """Another client was told a later epoch: nothing that this one sends from now on may be carried out."""
        return claim.epoch < self._fence

    def passed(self, claim: Claim, was_fenced: bool, what: str) -> None:
        """It was acknowledged. `was_fenced`: when it was sent for the first time."""
        if was_fenced:
            raise Violation(f"{what} of {claim.client} at epoch {claim.epoch} passed; {self.name} is at {self._fence}")

    def refused(self, claim: Claim, code: int, started_s: float | None, timeout_s: float) -> None:
        """A client was told that it is not the id's producer any more. That has a reason: another client, or the timeout.

        `started_s`: when its transaction may have begun; None: it has none.
        """
        self.refused_count += 1
        is_late = started_s is not None and self._now() - started_s >= timeout_s
        has_rival = any(
            attempt.ended_s >= claim.asked_s and (attempt.client != claim.client or attempt.is_lost)
            for attempt in self._attempts
        )
        if not is_late and not has_rival:
            raise Violation(
                f"{claim.client} was told {ErrorCode(code).name} at epoch {claim.epoch} of {self.name}, "
                f"and nobody else had asked for it"
            )
