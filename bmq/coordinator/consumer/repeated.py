"""Heartbeats that say what was said before while nothing has changed: nearly all there are (KIP-848).

What a member of a settled group is answered depends on its request, the group, its topics and its configs alone. So the
bytes of an answer for which nothing was written are right until one of these changes, and nobody has to look at the group
for them: that took eight tenths of a heartbeat's time. The member's session begins anew as with any other heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.coordinator.member_timers import TimerOrder
from bmq.protocol.codec import after_correlation_id
from bmq.protocol.wire import Buffer

SAID_BYTES_MAX: Final = 512
"""A longer request is not remembered: one that has nothing to say has two names in it."""
REMEMBERED_PER_MEMBER_MAX: Final = 2


class Said(NamedTuple):
    """What an answer depends on of a request. `text`: all of the frame but its correlation id."""

    client_host: str
    api_version: int
    text: bytes

    @classmethod
    def in_frame(cls, frame: Buffer, client_host: str, api_version: int) -> Said:
        return cls(client_host, api_version, after_correlation_id(frame))


class _Answered(NamedTuple):
    body: bytes
    timers: tuple[TimerOrder, ...]
    configs: Mapping[str, Mapping[str, str]]


class RepeatedHeartbeats:
    """Of one group. To be forgotten with every record of it, and when its topics change."""

    __slots__ = ("_answered",)

    def __init__(self) -> None:
        self._answered: dict[Said, _Answered] = {}

    def remember(
        self,
        said: Said,
        body: bytes,
        timers: tuple[TimerOrder, ...],
        configs: Mapping[str, Mapping[str, str]],
        member_count: int,
    ) -> None:
        """`configs`: those of all groups, the same object until one of them changes."""
        if len(said.text) > SAID_BYTES_MAX:
            return
        if len(self._answered) >= REMEMBERED_PER_MEMBER_MAX * member_count:
            self._answered.clear()
        self._answered[said] = _Answered(body, timers, configs)

    def find(self, said: Said, configs: Mapping[str, Mapping[str, str]]) -> tuple[bytes, tuple[TimerOrder, ...]] | None:
        """(the answer's body, the deadlines that it moves); None: somebody has to look at the group."""
        answered = self._answered.get(said)
        if answered is None or answered.configs is not configs:
            return None
        return answered.body, answered.timers

    def forget(self) -> None:
        if self._answered:
            self._answered.clear()
