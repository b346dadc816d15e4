"""The listeners for clients: name, address and protocol of each, under Kafka's names. Decisions only.

`listeners` = NAME://HOST:PORT,...; `advertised.listeners` the same, for those whose clients are to be told another address;
`listener.security.protocol.map` = NAME:PROTOCOL,.... Without `listeners` there is one: PLAINTEXT at the setting `listen`.
Source: SocketServerConfigs and KafkaConfig of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from bmq.security.listener_security import ListenerSecurity, SecurityProtocol, require_served

PLAINTEXT: Final = "PLAINTEXT"
OWN_NAMES: Final = frozenset({"INTERNAL", "REST"})
"""Names of the listeners for other nodes and for operators in the cluster's metadata."""
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOLS: Final = "listener.security.protocol.map"
MECHANISMS: Final = "sasl.enabled.mechanisms"
_ENTRY: Final = re.compile(r"([A-Za-z0-9_]+)://(?:\[([0-9A-Fa-f:%.a-z]*)\]|([^\s:/,\[\]]*)):([0-9]{1,5})")

Address = tuple[str, int]


class WrongListeners(Exception):
    """The settings cannot be right; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class ListenerConfig:
    """`advertised`: where clients are told to connect; None: where it listens."""

    address: Address
    security: ListenerSecurity
    advertised: Address | None = None

    @property
    def name(self) -> str:
        return self.security.name


def listeners_of(configs: Mapping[str, str], listen: Address, advertised: Address | None) -> tuple[ListenerConfig, ...]:
    """`configs`: under Kafka's names. `listen`, `advertised`: the settings of these names. Raises WrongListeners."""
    protocols = _protocols(configs.get(PROTOCOLS, ""))
    if not configs.get(LISTENERS, "").strip():
        if configs.get(ADVERTISED, "").strip():
            raise WrongListeners(
                f"{ADVERTISED} needs {LISTENERS}; without it the setting `advertised` has that address"
            )
        return (ListenerConfig(listen, _security(PLAINTEXT, protocols, configs), advertised),)
    places = _addresses(LISTENERS, configs[LISTENERS])
    told = _addresses(ADVERTISED, configs.get(ADVERTISED, ""))
    unknown = sorted(told.keys() - places.keys())
    if unknown:
        raise WrongListeners(f"{ADVERTISED} has {', '.join(unknown)}, which {LISTENERS} does not have")
    own = sorted(places.keys() & OWN_NAMES)
    if own:
        raise WrongListeners(f"{LISTENERS} has {', '.join(own)}, a name that is taken by the node's own listener")
    return tuple(
        ListenerConfig(address, _security(name, protocols, configs), told.get(name)) for name, address in places.items()
    )


def config_of(configs: Mapping[str, str], listener: str, name: str, mechanism: str = "") -> str | None:
    """A listener's own config beats the plain one; a mechanism's beats both."""
    prefix = f"listener.name.{listener.lower()}."
    if mechanism:
        own = configs.get(f"{prefix}{mechanism.lower()}.{name}")
        if own is not None:
            return own
    return configs.get(prefix + name, configs.get(name))


def _addresses(setting: str, text: str) -> dict[str, Address]:
    found: dict[str, Address] = {}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        match = _ENTRY.fullmatch(entry)
        if match is None or int(match[4]) > 65_535:
            raise WrongListeners(f"{setting} has {entry!r}, which is not NAME://HOST:PORT")
        name = match[1].upper()
        if name in found:
            raise WrongListeners(f"{setting} has {name} more than once")
        found[name] = (match[2] if match[2] is not None else match[3], int(match[4]))
    places = [place for place in found.values() if place[1]]
    if setting == LISTENERS and len(set(places)) < len(places):
        raise WrongListeners(f"{setting} has two listeners at one address")
    return found


def _protocols(text: str) -> dict[str, SecurityProtocol]:
    found = {protocol.name: protocol for protocol in SecurityProtocol}
    for entry in (part.strip() for part in text.split(",")):
        if not entry:
            continue
        name, separator, protocol = (part.strip().upper() for part in entry.partition(":"))
        if not separator or protocol not in SecurityProtocol.__members__:
            known = ", ".join(SecurityProtocol.__members__)
            raise WrongListeners(f"{PROTOCOLS} has {entry!r}, which is not NAME:PROTOCOL; protocols are {known}")
        found[name] = SecurityProtocol[protocol]
    return found


def _security(name: str, protocols: Mapping[str, SecurityProtocol], configs: Mapping[str, str]) -> ListenerSecurity:
    protocol = protocols.get(name)
    if protocol is None:
        raise WrongListeners(f"{PROTOCOLS} has no protocol for the listener {name}")
    mechanisms: frozenset[str] = frozenset()
    if protocol.is_sasl:
        try:
            mechanisms = require_served((config_of(configs, name, MECHANISMS) or "").split(","))
        except ValueError as error:
            raise WrongListeners(f"listener {name}: {error}") from None
    return ListenerSecurity(name, protocol, mechanisms)
