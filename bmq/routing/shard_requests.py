"""Requests as they are carried to the shards of the keys they name: taken apart, put together, and what may be sent again.

A key is what a shard is found by: a group's id, a transactional id. A request is about one key or many, and an answer has a
part for each.
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
"""What passes when a shard has found its next owner."""


class ShardRequest(ABC):
    """One client's request, as it is for an API about one key: the part is the response.

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
        """Whether it may be sent again when the outcome of the first try is not known."""
        return True

    def check(self) -> ShardRequest | None:
        """What is asked instead when the request may have been carried out; its parts are of this request's kind.

        None: the request itself, if it is repeatable.
        """
        return None

    def about(self, keys: Sequence[str], places: Sequence[int]) -> Any:
        """The request about these keys only: the ones at these places of `keys`."""
        return self.request

    def parts(self, response: Any) -> Sequence[Any]:
        """One for each key that was asked about."""
        return (response,)

    def code(self, part: Any) -> int:
        """The part's error, if it is one of the whole key."""
        return cast(int, part.error_code)

    @abstractmethod
    def refusal(self, key: str, code: ErrorCode) -> Any:
        """The part of a key whose coordinator was not reached."""

    def is_unsure(self, part: Any) -> bool:
        """Whether the coordinator does not know itself if it was carried out; `check` can tell, or the client has to decide."""
        return False

    def repeated(self, part: Any) -> Any:
        """What a part means when an earlier try may have done the work."""
        return part

    def response(self, parts: Sequence[Any]) -> Any:
        """The answer to the client."""
        return parts[0]


def moving(codes: Iterable[int]) -> int:
    """The first of these that passes; NONE if none does."""
    return next((code for code in codes if code in MOVING), ErrorCode.NONE)
