"""Rules that give a producer's records a lane, by client id or user; the proxy applies them. Pure.

A rule is `client:NAME=LANE` or `user:NAME=LANE`. A NAME that ends in `*` fits all names that begin so. The first rule that fits
counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from bmq.log.lanes.names import LaneRefused, check_lane

RULES_MAX: Final = 100
"""Most rules of a topic: each produce may compare them all."""
_NAME_LENGTH_MAX: Final = 255
_SHOWN_LENGTH_MAX: Final = 100
_USER: Final = "user"
_CLIENT: Final = "client"
_ANY: Final = "*"
_USER_PRINCIPAL: Final = "User:"


class LaneRule(NamedTuple):
    """One rule. `is_user`: `name` is a user, else a client id. `is_prefix`: `name` is the beginning of one."""

    is_user: bool
    name: str
    is_prefix: bool
    lane: str

    def fits(self, client_id: str, user: str) -> bool:
        """Whether the rule fits this client. `user`: empty for a principal of another type than User."""
        name = user if self.is_user else client_id
        return name.startswith(self.name) if self.is_prefix else name == self.name


def lane_rule(text: str) -> LaneRule:
    """Parse one item of the config. Raises LaneRefused."""
    kind, colon, rest = text.strip().partition(":")
    name, equals, lane = rest.rpartition("=")
    if not colon or not equals or kind not in (_USER, _CLIENT) or not 1 <= len(name) <= _NAME_LENGTH_MAX:
        raise LaneRefused(
            f"{text[:_SHOWN_LENGTH_MAX]!r} is no rule of a lane's producers: client:NAME=LANE or user:NAME=LANE is"
        )
    is_prefix = name.endswith(_ANY)
    return LaneRule(kind == _USER, name[:-1] if is_prefix else name, is_prefix, check_lane(lane))


def lane_rules(texts: Iterable[str]) -> tuple[LaneRule, ...]:
    """Parse all items of the config. Raises LaneRefused."""
    rules = tuple(map(lane_rule, texts))
    if len(rules) > RULES_MAX:
        raise LaneRefused(f"{len(rules)} rules of lanes' producers, {RULES_MAX} are allowed")
    return rules


def lane_of_producer(rules: Sequence[LaneRule], client_id: str | None, principal: str) -> str | None:
    """The lane that this client's records get; None if no rule fits. `principal`: TYPE:NAME."""
    user = principal.removeprefix(_USER_PRINCIPAL) if principal.startswith(_USER_PRINCIPAL) else ""
    return next((rule.lane for rule in rules if rule.fits(client_id or "", user)), None)
