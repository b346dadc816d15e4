"""Config keys: type, default and valid values, and how text becomes a checked value. The config tables consist of
these. Pure.

Messages are worded as Kafka's ConfigDef words them, because people search for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import IntEnum
from typing import ClassVar, Final

from bmq.dataclass import dataclass
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError

NO_EFFECT: Final = "No effect. "
"""How the documentation of a config begins that is only shown."""

Value = bool | int | float | str | tuple[str, ...]
Check = Callable[[str, Value], None]
"""(config name, parsed value); raises InvalidConfig."""


class InvalidConfig(BmqError):
    """A config that does not exist or a value it cannot have; the message names both."""

    code: ClassVar[ErrorCode] = ErrorCode.INVALID_CONFIG


class ConfigType(IntEnum):
    """Numbers of DescribeConfigsResponse.config_type."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ResourceType(IntEnum):
    """Kinds of resources with configs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Operation(IntEnum):
    """Numbers of AlterableConfig.config_operation (KIP-339)."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigSource(IntEnum):
    """Numbers of DescribeConfigsResponse.config_source; among the broker's sources a lower one wins."""

    UNKNOWN = 0
    DYNAMIC_TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    DYNAMIC_CLIENT_METRICS = 7
    DYNAMIC_GROUP = 8


@dataclass(frozen=True, slots=True)
class BrokerSynonym:
    """A broker config that gives a topic config its default; its value times `factor` is in the topic config's unit."""

    name: str
    factor: int = 1


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """One row of a table. `default` is text as Kafka shows it, None for no value.

    `synonyms` (topic configs): the broker's, the strongest first. `is_dynamic` (broker configs): may be altered while
    the server runs.
    """

    name: str
    type: ConfigType
    default: str | None
    documentation: str
    check: Check | None = None
    synonyms: tuple[BrokerSynonym, ...] = ()
    is_dynamic: bool = False

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> Value:
        """The parsed and checked value. Raises InvalidConfig. Source: ConfigDef.parseType."""
        value = _PARSERS[self.type](self.name, text.strip())
        if self.check is not None:
            self.check(self.name, value)
        # Kafka counts an item that is there twice once (KIP-1161).
        return tuple(dict.fromkeys(value)) if isinstance(value, tuple) else value


def table_of(*keys: ConfigKey) -> Mapping[str, ConfigKey]:
    """Keys by name, in alphabetical order."""
    table = {key.name: key for key in sorted(keys, key=lambda key: key.name)}
    if len(table) != len(keys):
        raise ValueError("two config keys of the same name")
    return table


def text_of(value: Value) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_text(value)
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _java_text(value: float) -> str:
    """As Java's Double.toString: the same digits, with an exponent below a thousandth and from ten million on."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return str(value)
    if value in (float("inf"), -float("inf")):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, rest = str(digits[0]), "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{exponent + len(digits) - 1}"


def split_list(text: str) -> tuple[str, ...]:
    """The items of a LIST value."""
    text = text.strip()
    return tuple(item.strip() for item in text.split(",")) if text else ()


def _refuse(name: str, value: object, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {value} for configuration {name}: {why}")


# --- parsing

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?")


def _parse_boolean(name: str, text: str) -> bool:
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise _refuse(name, text, "Expected value to be either true or false")


def _integer_parser(config_type: ConfigType, bits: int) -> Callable[[str, str], int]:
    limit = 1 << (bits - 1)

    def parse(name: str, text: str) -> int:
        if not _INTEGER.fullmatch(text) or not -limit <= int(text) < limit:
            raise _refuse(name, text, f"Not a number of type {config_type.name}")
        return int(text)

    return parse


def _parse_double(name: str, text: str) -> float:
    if not _DECIMAL.fullmatch(text):
        raise _refuse(name, text, "Not a number of type DOUBLE")
    return float(text)


_PARSERS: Final[Mapping[ConfigType, Callable[[str, str], Value]]] = {
    ConfigType.BOOLEAN: _parse_boolean,
    ConfigType.STRING: lambda name, text: text,
    ConfigType.INT: _integer_parser(ConfigType.INT, 32),
    ConfigType.SHORT: _integer_parser(ConfigType.SHORT, 16),
    ConfigType.LONG: _integer_parser(ConfigType.LONG, 64),
    ConfigType.DOUBLE: _parse_double,
    ConfigType.LIST: lambda name, text: split_list(text),
    ConfigType.CLASS: lambda name, text: text,
    ConfigType.PASSWORD: lambda name, text: text,
}


# --- checks


def between(low: float, high: float) -> Check:
    """Low and high included."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, (int, float))
        if value < low:
            raise _refuse(name, value, f"Value must be at least {low}")
        if value > high:
            raise _refuse(name, value, f"Value must be no more than {high}")

    return check


def at_least(low: float) -> Check:
    return between(low, float("inf"))


def between_or(low: int, high: int, other: int) -> Check:
    """A range, or one value outside of it."""

    def check(name: str, value: Value) -> None:
        assert isinstance(value, int)
        if value != other and not low <= value <= high:
            raise _refuse(name, value, f"Value must be between {low} and {high} or equal to {other}")

    return check


def one_of(*choices: str) -> Check:
    """A string, or every item of a list, is one of these."""

    def check(name: str, value: Value) -> None:
        for item in value if isinstance(value, tuple) else (value,):
            if item not in choices:
                raise _refuse(name, item, f"String must be one of: {', '.join(choices)}")

    return check


def assignors(name: str, value: Value) -> None:
    """One of the built-in assignors at least."""
    one_of("uniform", "range")(name, value)
    if value == ():
        raise _refuse(name, "[]", "Configuration must not be empty")


GROUPS_NAMED_MAX: Final = 16
"""Groups that one topic config may name: each costs a question to its coordinator."""


def group_ids(name: str, value: Value) -> None:
    """Group ids, each once, at most GROUPS_NAMED_MAX."""
    assert isinstance(value, tuple)
    if "" in value:
        raise _refuse(name, text_of(value), "Group ids must not be empty")
    if len(set(value)) != len(value):
        raise _refuse(name, text_of(value), "Each group may be named once")
    if len(value) > GROUPS_NAMED_MAX:
        raise _refuse(name, text_of(value), f"At most {GROUPS_NAMED_MAX} groups may be named, not {len(value)}")


_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")


def throttled_replicas(name: str, value: Value) -> None:
    """`*`, nothing, or a list of partition:broker pairs. Source: ThrottledReplicaListValidator."""
    assert isinstance(value, tuple)
    if value in ((), ("*",)) or all(_THROTTLED_REPLICA.fullmatch(item) for item in value):
        return
    raise _refuse(
        name,
        f"[{', '.join(value)}]",
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )
