"""The topic configs of swimlanes for producers: which records are refused, and which get a lane. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from bmq.log.lanes.names import LaneRefused
from bmq.log.lanes.stamps import LaneRule, lane_rules
from bmq.metadata.config_keys import BrokerSynonym, ConfigKey, ConfigType, InvalidConfig, Value

LANE_VALIDATE: Final = "bmq.lane.validate"
LANE_PRODUCERS: Final = "bmq.lane.producers"


def _rules(name: str, value: Value) -> None:
    try:
        lane_rules(cast(tuple[str, ...], value))
    except LaneRefused as error:
        raise InvalidConfig(f"{name}: {error}") from error


LANE_TOPIC_CONFIGS: Final = (
    ConfigKey(
        LANE_VALIDATE,
        ConfigType.BOOLEAN,
        "false",
        "Whether records are refused whose header x-lane, or that key of the header baggage, names no lane (1 to 64 ASCII "
        "letters, digits, dots, hyphens and underscores) or more than one. Without it they have no lane.",
        None,
        (BrokerSynonym(LANE_VALIDATE),),
    ),
    ConfigKey(
        LANE_PRODUCERS,
        ConfigType.LIST,
        "",
        "Producers whose records get the header x-lane if they have no lane: client:NAME=LANE for a client id, user:NAME=LANE for "
        "a user; a NAME that ends in * is the beginning of one. The first rule that fits counts, 100 are allowed.",
        _rules,
        (BrokerSynonym(LANE_PRODUCERS),),
    ),
)


def lane_producers(values: Mapping[str, Value]) -> tuple[LaneRule, ...]:
    """The rules that say which client's records get which lane."""
    return lane_rules(cast(tuple[str, ...], values[LANE_PRODUCERS]))
