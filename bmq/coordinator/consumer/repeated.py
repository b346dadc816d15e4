"""Heartbeats that repeat an earlier one while nothing has changed: nearly all heartbeats (KIP-848).

The answer to a member of a settled group depends only on its request, the group, its topics and its configs. So an
answer for which nothing was written stays right until one of these changes, and we send its bytes again without looking
at the group, which took eight tenths of a heartbeat's time. The member's session is renewed as by any heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bmq.coordinator.modern.member_timers import TimerOrder
from bmq.protocol.codec import after_correlation_id
from bmq.protocol.wire import Buffer

SAID_BYTES_MAX: Final = 512
"""Longer requests are not remembered: a heartbeat that changes nothing carries only two names."""
REMEMBERED_PER_MEMBER_MAX: Final = 2


class Said(NamedTuple):
    """The parts of a request that the answer depends on. `text`: the whole frame without its correlation id."""

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
    """The remembered heartbeats of one group. `forget` them on every record of the group and when its topics change."""

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
        """`configs`: of all groups; the same object until one of them changes."""
        if len(said.text) > SAID_BYTES_MAX:
            return
        if len(self._answered) >= REMEMBERED_PER_MEMBER_MAX * member_count:
            self._answered.clear()
        self._answered[said] = _Answered(body, timers, configs)

    def find(self, said: Said, configs: Mapping[str, Mapping[str, str]]) -> tuple[bytes, tuple[TimerOrder, ...]] | None:
        """(the answer's body, the deadlines that it renews); None: the heartbeat has to be decided."""
        answered = self._answered.get(said)
        if answered is None or answered.configs is not configs:
            return None
        return answered.body, answered.timers

    def forget(self) -> None:
        if self._answered:
            self._answered.clear()
