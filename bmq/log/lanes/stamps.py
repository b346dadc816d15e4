"""Which producers' records get a lane from the proxy, by their client id or their user. Pure.

A rule is `client:NAME=LANE` or `user:NAME=LANE`; a NAME that ends in `*` is the beginning of a name. The first rule that
fits counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bmq.log.lanes.names import LaneRefused, check_lane

RULES_MAX: Final = 100
"""Each produce of a topic with rules looks at all of them."""
_NAME_LENGTH_MAX: Final = 255
_SHOWN_LENGTH_MAX: Final = 100
_USER: Final = "user"
_CLIENT: Final = "client"
_ANY: Final = "*"
_USER_PRINCIPAL: Final = "User:"


class LaneRule(NamedTuple):
    """`is_user`: `name` is a user's, else a client id. `is_prefix`: it is the beginning of one."""

    is_user: bool
    name: str
    is_prefix: bool
    lane: str

    def fits(self, client_id: str, user: str) -> bool:
        """`user`: empty for a principal that is no user."""
        name = user if self.is_user else client_id
        return name.startswith(self.name) if self.is_prefix else name == self.name


def lane_rule(text: str) -> LaneRule:
    """The rule of one item of the config. Raises LaneRefused."""
    kind, colon, rest = text.strip().partition(":")
    name, equals, lane = rest.rpartition("=")
    if not colon or not equals or kind not in (_USER, _CLIENT) or not 1 <= len(name) <= _NAME_LENGTH_MAX:
        raise LaneRefused(
            f"{text[:_SHOWN_LENGTH_MAX]!r} is no rule of a lane's producers: client:NAME=LANE or user:NAME=LANE is"
        )
    is_prefix = name.endswith(_ANY)
    return LaneRule(kind == _USER, name[:-1] if is_prefix else name, is_prefix, check_lane(lane))


def lane_rules(texts: Iterable[str]) -> tuple[LaneRule, ...]:
    """Raises LaneRefused."""
    rules = tuple(map(lane_rule, texts))
    if len(rules) > RULES_MAX:
        raise LaneRefused(f"{len(rules)} rules of lanes' producers, {RULES_MAX} are allowed")
    return rules


def lane_of_producer(rules: Sequence[LaneRule], client_id: str | None, principal: str) -> str | None:
    """The lane that the records of this client get; None: they stay as they are. `principal`: TYPE:NAME."""
    user = principal.removeprefix(_USER_PRINCIPAL) if principal.startswith(_USER_PRINCIPAL) else ""
    return next((rule.lane for rule in rules if rule.fits(client_id or "", user)), None)
