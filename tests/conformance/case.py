"""What a case is: a state to set up, a request, and what of the answer is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tests.conformance.world import World

CLIENT_ID: Final = "conformance"
Build = Callable[["World", int], "Mapping[str, Any] | Body"]


class NotInThisVersion(Exception):
    """Raised by a case's `build`: there is no such field in the version it was asked for."""


@dataclass(frozen=True, slots=True)
class Body:
    """A request's body as bytes, behind the header; `version` in the header in place of the case's own."""

    data: bytes
    version: int | None = None
    client_id: str | None = CLIENT_ID


@dataclass(frozen=True, slots=True)
class Case:
    """`build` sets the state up and returns the request's values; what it makes is named by `World.name`.

    `only`: see answers.only; the elements kept are those the case named. `after`: what to look at once the request
    is answered; what it returns is compared as well. `is_answered`: False where Kafka answers nothing (acks=0).
    `ignored`: fields that are left out of the comparison in this case, by their names.
    """

    api_key: int
    name: str
    build: Build
    versions: Callable[[int], bool] = lambda _: True
    only: tuple[str, ...] = ()
    after: Callable[[World, int, Mapping[str, Any]], Any] | None = None
    is_answered: bool = True
    ignored: frozenset[str] = frozenset()
    is_valid: bool = False
    """The request that a well-behaved client sends: hostile frames are made of the first of each API."""


@dataclass(slots=True)
class Cases:
    """All cases of one or more APIs, in the order they were declared."""

    found: list[Case] = field(default_factory=list)

    def add(
        self,
        api_key: int,
        name: str,
        *,
        since: int = 0,
        until: int = 99,
        only: tuple[str, ...] = (),
        after: Callable[[World, int, Mapping[str, Any]], Any] | None = None,
        is_answered: bool = True,
        ignored: tuple[str, ...] = (),
        valid: bool = False,
    ) -> Callable[[Build], Build]:
        """Decorates the case's `build`; `since` and `until`: the versions it is for."""

        def declare(build: Build) -> Build:
            self.found.append(
                Case(
                    api_key,
                    name,
                    build,
                    lambda version: since <= version <= until,
                    only,
                    after,
                    is_answered,
                    frozenset(ignored),
                    valid,
                )
            )
            return build

        return declare
