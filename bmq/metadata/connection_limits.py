"""How many connections a listener for clients accepts, in all and from one address: by broker configs, altered live.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from ipaddress import ip_address
from typing import Final, Protocol

from bmq.dataclass import dataclass
from bmq.metadata.config_keys import InvalidConfig, Value

OVERRIDES: Final = "max.connections.per.ip.overrides"
_NO_LIMIT: Final = 2**31 - 1
_LOCALHOST: Final = ("127.0.0.1", "::1")


class Configs(Protocol):
    """Broker configs in force; see broker_configs.py, which knows this module."""

    def value_of(self, name: str) -> str | None: ...
    def number(self, name: str) -> int: ...


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """`by_host`: by address, instead of `per_host`."""

    total: int = _NO_LIMIT
    per_host: int = _NO_LIMIT
    by_host: Mapping[str, int] = field(default_factory=dict)

    def of_host(self, host: str) -> int:
        return self.by_host.get(host, self.per_host)


def connection_limits(configs: Configs) -> ConnectionLimits:
    """The limits in force."""
    return ConnectionLimits(
        configs.number("max.connections"),
        configs.number("max.connections.per.ip"),
        parse_overrides(configs.value_of(OVERRIDES) or ""),
    )


class LimitsInForce:
    """The limits by the newest configs, read once for each change: they are asked for with each connection.

    `configs`: those in force, the same object until one of them changes.
    """

    def __init__(self, configs: Callable[[], Configs]) -> None:
        self._configs = configs
        self._read: Configs | None = None
        self._limits = ConnectionLimits()

    def __call__(self) -> ConnectionLimits:
        configs = self._configs()
        if configs is not self._read:
            self._limits = connection_limits(configs)
            self._read = configs
        return self._limits


def connection_creation_rate(configs: Configs) -> int | None:
    """New connections a second that this node accepts; None: as many as come."""
    rate = configs.number("max.connection.creation.rate")
    return None if rate == _NO_LIMIT else rate


def parse_overrides(text: str) -> dict[str, int]:
    """Limits by address, of "127.0.0.1:100,::1:50,localhost:7". Raises InvalidConfig.

    Names other than localhost are refused: what they stand for may change, and looking them up takes time.
    """
    found: dict[str, int] = {}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        host, _, count = entry.rpartition(":")
        if not count.isascii() or not count.isdigit() or int(count) > _NO_LIMIT:
            raise _refused(text, f"{entry} is not ADDRESS:NUMBER")
        try:
            addresses = _LOCALHOST if host == "localhost" else (str(ip_address(host.strip("[]"))),)
        except ValueError as error:
            raise _refused(text, f"{host} is not an address") from error
        found.update(dict.fromkeys(addresses, int(count)))
    return found


def valid_overrides(name: str, value: Value) -> None:
    """The check of the config."""
    parse_overrides(str(value))


def _refused(text: str, why: str) -> InvalidConfig:
    return InvalidConfig(f"Invalid value {text} for configuration {OVERRIDES}: {why}")
