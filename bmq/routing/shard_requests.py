"""Requests routed to the shards of their keys: how to split them, merge the answers, and which may be repeated.

A key identifies a shard: a group id or a transactional id. A request is about one key or many, and an answer has a part
for each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Final, cast

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode

MOVING: Final = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""Codes that pass once a shard has found its next owner."""


class ShardRequest(ABC):
    """One client's request; this implementation suits an API about one key, whose part is the response.

    `waits_for_members`: an answer may take as long as a rebalance.
    """

    api_key: ApiKey
    waits_for_members = False

    def __init__(self, request: Any, api_version: int) -> None:
        self.request = request
        self.api_version = api_version

    @property
    @abstractmethod
    def keys(self) -> Sequence[str]:
        """One for each part of the answer, in order."""

    @property
    def is_repeatable(self) -> bool:
        """Whether it may be sent again when the outcome of the first try is unknown."""
        return True

    def check(self) -> ShardRequest | None:
        """The request to send instead when this one may have been carried out; its parts are of this request's kind.

        None: send the request itself, if it is repeatable.
        """
        return None

    def about(self, keys: Sequence[str], places: Sequence[int]) -> Any:
        """The request reduced to these keys, which are at these places of `self.keys`."""
        return self.request

    def parts(self, response: Any) -> Sequence[Any]:
        """One part for each key in the request."""
        return (response,)

    def code(self, part: Any) -> int:
        """The part's error, if it applies to the whole key."""
        return cast(int, part.error_code)

    @abstractmethod
    def refusal(self, key: str, code: ErrorCode) -> Any:
        """The part of a key whose coordinator was not reached."""

    def is_unsure(self, part: Any) -> bool:
        """Whether the coordinator itself does not know the outcome; `check` finds out, or the client decides."""
        return False

    def repeated(self, part: Any) -> Any:
        """The part to return when an earlier try may have done the work."""
        return part

    def response(self, parts: Sequence[Any]) -> Any:
        """The answer to the client."""
        return parts[0]


def moving(codes: Iterable[int]) -> int:
    """The first of these codes that is in MOVING; NONE if none is."""
    return next((code for code in codes if code in MOVING), ErrorCode.NONE)
