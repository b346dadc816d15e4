"""Responses to heartbeats that are sent again while nothing has changed: nearly all of them (KIP-848, KIP-932). Decisions only.

The response to a member of a settled group depends only on its request, the group, its topics and its configs. So a
response for which nothing was written stays right until one of these changes, and we send its bytes again without
looking at the group, which took eight tenths of a heartbeat's time. The member's session is renewed as by any heartbeat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from bmq.coordinator.modern.member_timers import TimerOrder
from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import after_correlation_id
from bmq.protocol.wire import Buffer

KEY_BYTES_MAX: Final = 512
"""Responses to longer requests are not cached: a heartbeat that changes nothing carries only two names."""
RESPONSES_PER_MEMBER_MAX: Final = 2


class RequestKey(NamedTuple):
    """The parts of a request that the response depends on. `text`: the whole frame without its correlation id."""

    client_host: str
    api_version: int
    text: bytes

    @classmethod
    def in_frame(cls, frame: Buffer, client_host: str, api_version: int) -> RequestKey:
        return cls(client_host, api_version, after_correlation_id(frame))


class CacheableResponse(NamedTuple):
    """A response that stays right until the group, its topics or its configs change, unless it wrote records."""

    key: RequestKey
    api_key: ApiKey
    response: Any


class _CachedResponse(NamedTuple):
    body: bytes
    timers: tuple[TimerOrder, ...]
    configs: Mapping[str, Mapping[str, str]]


class CachedResponses:
    """The cached responses of one group. `clear` them on every record of the group, and when the server's settings change."""

    __slots__ = ("_responses",)

    def __init__(self) -> None:
        self._responses: dict[RequestKey, _CachedResponse] = {}

    def __len__(self) -> int:
        return len(self._responses)

    def put(
        self,
        key: RequestKey,
        body: bytes,
        timers: tuple[TimerOrder, ...],
        configs: Mapping[str, Mapping[str, str]],
        member_count: int,
    ) -> None:
        """`configs`: of all groups; the same object until one of them changes."""
        if len(key.text) > KEY_BYTES_MAX:
            return
        if len(self._responses) >= RESPONSES_PER_MEMBER_MAX * member_count:
            self._responses.clear()
        self._responses[key] = _CachedResponse(body, timers, configs)

    def get(
        self, key: RequestKey, configs: Mapping[str, Mapping[str, str]]
    ) -> tuple[bytes, tuple[TimerOrder, ...]] | None:
        """(the response's body, the deadlines that it renews); None: the heartbeat has to be decided."""
        cached = self._responses.get(key)
        if cached is None or cached.configs is not configs:
            return None
        return cached.body, cached.timers

    def clear(self) -> None:
        if self._responses:
            self._responses.clear()
