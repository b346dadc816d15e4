"""One record of a share group: its deliveries, what members said of them, its dead letter, and which of it had an effect. No I/O.

An acknowledgement names no delivery. As Kafka's, the server takes any acknowledgement of a record below the start offset of its
share partition, answers it without an error, and changes nothing: so a member whose lock has run out may hear that its accept is
done when another member's was. What decides is the delivery count, which rises by one with each acquisition. An end is *certain* if
its member heard of it while its lock lived for certain: then the record has no later delivery. A later delivery to another member
says of any other end that it had no effect, so that something else must have ended the record before its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from tests.soak.queues.plan import Choice

Place = tuple[int, int]
"""Partition and offset."""
REJECTED: Final = "Offset rejected by client."
"""Kafka's words in a dead letter; with the others it was delivered too often."""


class Delivery(NamedTuple):
    """A record that a member was given for the `number`th time, as it was told."""

    member: str
    since_s: float
    at_s: float
    number: int


class DeadLetter(NamedTuple):
    """As it was read. `number`: of deliveries, by its header; `reason`: its header's words."""

    place: Place
    number: int
    reason: str
    at_s: float


@dataclass(slots=True, eq=False)
class End:
    """An accept or a reject that was sent, and was not refused. `delivery`: the newest one of its member, when that said it.

    `answered_s`: when it was acknowledged; None: nobody knows what became of it. `is_certain`: see the module.
    """

    choice: Choice
    delivery: Delivery
    said_s: float
    answered_s: float | None = None
    is_certain: bool = False

    @property
    def number(self) -> int:
        return self.delivery.number

    @property
    def member(self) -> str:
        return self.delivery.member


class Record:
    """`unsaid`: by member, its newest delivery that it has said nothing of. `sent`: by member, what it said and was not answered,
    with the end that this would be; None: more than one thing. `ends`: in the order they were told.
    """

    __slots__ = ("deliveries", "ends", "letter", "sent", "unsaid")

    def __init__(self) -> None:
        self.deliveries: list[Delivery] = []
        self.unsaid: dict[str, Delivery] = {}
        self.sent: dict[str, tuple[Choice, End | None] | None] = {}
        self.ends: list[End] = []
        self.letter: DeadLetter | None = None

    @property
    def last(self) -> Delivery | None:
        """The delivery that was told last."""
        return self.deliveries[-1] if self.deliveries else None

    @property
    def newest_number(self) -> int:
        return max((one.number for one in self.deliveries), default=0)

    @property
    def acknowledged(self) -> Iterator[End]:
        return (end for end in self.ends if end.answered_s is not None)

    @property
    def known(self) -> End | None:
        """The acknowledged end of the latest delivery: if another had an effect, this delivery would not be."""
        return max(self.acknowledged, key=lambda end: end.number, default=None)

    @property
    def may_be_accepted(self) -> bool:
        """By an accept of its newest delivery, or for certain. Others had no effect."""
        return any(map(self._may_have_accepted, self.ends))

    @property
    def is_accepted(self) -> bool:
        return any(map(self._may_have_accepted, self.acknowledged))

    @property
    def is_rejected(self) -> bool:
        """Whether it has to be a dead letter."""
        known = self.known
        return (
            known is not None
            and known.choice is Choice.REJECT
            and not any(end.choice is Choice.ACCEPT and end.number > known.number for end in self.ends)
        )

    def later(self, end: End) -> Delivery | None:
        """A delivery after the one that has this end; to its own member: what that says of one is taken for the other."""
        found = [one for one in self.deliveries if one.number > end.number]
        return max(found, key=lambda one: one.number, default=None)

    def had_another_end(self, end: End) -> bool:
        """Whether something else may have ended the record before this end was answered."""
        letter = self.letter
        if letter is not None and letter.reason != REJECTED and letter.number >= end.number:
            return True
        return any(self._may_precede(other, end) for other in self.ends)

    def was_rejected_before(self, end: End) -> bool:
        """The same by a reject."""
        return any(other.choice is Choice.REJECT and self._may_precede(other, end) for other in self.ends)

    def _may_have_accepted(self, end: End) -> bool:
        return end.choice is Choice.ACCEPT and (end.is_certain or end.number >= self.newest_number)

    def _may_precede(self, other: End, end: End) -> bool:
        return other.number > end.number and end.answered_s is not None and other.said_s < end.answered_s
