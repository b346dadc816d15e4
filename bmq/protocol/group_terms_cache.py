"""What groups' configs and a server's settings say together, computed again only when one of them is another object. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

NO_CONFIGS: Final[Mapping[str, str]] = {}
"""The configs of a group that sets nothing: always this object."""
TERMS_MAX: Final = 10_000
"""Groups whose terms are remembered."""

C = TypeVar("C")
T = TypeVar("T")


class GroupTermsCache(Generic[C, T]):
    """`settings()`: the server's, now in force. `terms_of(settings, configs)`: computes a group's terms.

    Neither settings nor configs may be changed in place.
    """

    def __init__(self, settings: Callable[[], C], terms_of: Callable[[C, Mapping[str, str]], T]) -> None:
        self._settings = settings
        self._terms_of = terms_of
        self._known: dict[str, tuple[C, Mapping[str, str], T]] = {}

    def __call__(self, group_id: str, configs: Mapping[str, str]) -> T:
        """The terms of a group that has these configs of its own."""
        settings = self._settings()
        known = self._known.get(group_id)
        if known is not None and known[0] is settings and known[1] is configs:
            return known[2]
        if len(self._known) >= TERMS_MAX:
            self._known.clear()
        terms = self._terms_of(settings, configs)
        self._known[group_id] = settings, configs, terms
        return terms
