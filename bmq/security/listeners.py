"""The listeners for clients: name, address and protocol of each, under Kafka's names. Decisions only.

`listeners` = NAME://HOST:PORT,...; `advertised.listeners` the same, for those whose clients are to be told another address;
`listener.security.protocol.map` = NAME:PROTOCOL,.... Without `listeners` there is one: PLAINTEXT at the setting `listen`.
Source: SocketServerConfigs and KafkaConfig of Apache Kafka.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from bmq.dataclass import dataclass
from bmq.security.kerberos_names import ShortNameRules, kerberos_name
from bmq.security.listener_security import (
    GSSAPI,
    MECHANISMS,
    OAUTHBEARER,
    PLAIN,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    KerberosService,
    ListenerSecurity,
    SecurityProtocol,
    require_served,
)
from bmq.security.mapping_rules import NoRule, WrongRules
from bmq.security.sasl.jaas import plain_users

PLAINTEXT: Final = "PLAINTEXT"
REST: Final = "REST"
OWN_NAMES: Final = frozenset({"INTERNAL", REST})
"""Names of the listeners for other nodes and for operators in the cluster's metadata."""
LISTENERS: Final = "listeners"
ADVERTISED: Final = "advertised.listeners"
PROTOCOLS: Final = "listener.security.protocol.map"
MECHANISMS_SETTING: Final = "sasl.enabled.mechanisms"
SESSION: Final = "connections.max.reauth.ms"
JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
JAAS: Final = "sasl.jaas.config"
KERBEROS_SERVICE: Final = "sasl.kerberos.service.name"
KERBEROS_RULES: Final = "sasl.kerberos.principal.to.local.rules"
KERBEROS_PRINCIPAL: Final = "bmq.sasl.kerberos.principal"
KERBEROS_KEYTAB: Final = "bmq.sasl.kerberos.keytab"
_KERBEROS: Final = (KERBEROS_SERVICE, KERBEROS_RULES, KERBEROS_PRINCIPAL, KERBEROS_KEYTAB)
LISTENER_PREFIX: Final = "listener.name."
_ENTRY: Final = re.compile(r"([A-Za-z0-9_]+)://(?:\[([0-9A-Fa-f:%.a-z]*)\]|([^\s:/,\[\]]*)):([0-9]{1,5})")

Address = tuple[str, int]


class WrongListeners(ValueError):
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
    found = _listeners_of(configs, listen, advertised)
    _require_known(configs, found)
    return found


def _listeners_of(
    configs: Mapping[str, str], listen: Address, advertised: Address | None
) -> tuple[ListenerConfig, ...]:
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
    if not protocol.is_sasl:
        return ListenerSecurity(name, protocol)
    try:
        mechanisms = require_served((config_of(configs, name, MECHANISMS_SETTING) or "").split(","))
    except ValueError as error:
        raise WrongListeners(f"listener {name}: {error}") from None
    if OAUTHBEARER in mechanisms and not configs.get(JWKS_URL, "").strip():
        raise WrongListeners(f"listener {name}: OAUTHBEARER needs {JWKS_URL}, the address of its keys")
    return ListenerSecurity(
        name,
        protocol,
        mechanisms,
        _sessions(name, configs),
        _jaas_users(name, configs, mechanisms),
        _kerberos(name, configs) if GSSAPI in mechanisms else None,
    )


def _kerberos(name: str, configs: Mapping[str, str]) -> KerberosService:
    principal, keytab, service, rules = (
        (config_of(configs, name, one, GSSAPI) or "").strip()
        for one in (KERBEROS_PRINCIPAL, KERBEROS_KEYTAB, KERBEROS_SERVICE, KERBEROS_RULES)
    )
    if not principal or not keytab:
        raise WrongListeners(f"listener {name}: GSSAPI needs {KERBEROS_PRINCIPAL} and {KERBEROS_KEYTAB}")
    try:
        parsed = kerberos_name(principal if "@" in principal else f"{principal}@REALM")
    except NoRule:
        parsed = None
    if parsed is None or "" in parsed.parts or len(parsed.parts) < 2 or not parsed.realm:
        raise WrongListeners(f"listener {name}: {KERBEROS_PRINCIPAL} = {principal!r} is not NAME/HOST@REALM")
    if service and service != parsed.first:
        raise WrongListeners(
            f"listener {name}: {KERBEROS_SERVICE} is {service}, and {KERBEROS_PRINCIPAL} begins with {parsed.first}"
        )
    try:
        return KerberosService(principal, keytab, ShortNameRules(rules))
    except WrongRules as error:
        raise WrongListeners(f"listener {name}: {KERBEROS_RULES}: {error}") from None


def _sessions(name: str, configs: Mapping[str, str]) -> dict[str, int]:
    """The longest session by mechanism, "" for all others."""
    found: dict[str, int] = {}
    for mechanism in ("", *MECHANISMS):
        own = f"listener.name.{name.lower()}.{mechanism.lower()}.{SESSION}"
        text = configs.get(own) if mechanism else config_of(configs, name, SESSION)
        if text is None:
            continue
        if not text.strip().isdecimal():
            raise WrongListeners(f"listener {name}: {SESSION} = {text!r} has to be milliseconds, 0 for no limit")
        found[mechanism] = int(text)
    return found


def _jaas_users(name: str, configs: Mapping[str, str], mechanisms: frozenset[str]) -> dict[str, str]:
    """Users of PLAIN. Those of SCRAM and OAUTHBEARER have none, and may be named as in Kafka."""
    for mechanism in MECHANISMS:
        line = configs.get(f"listener.name.{name.lower()}.{mechanism.lower()}.{JAAS}")
        if line is None or mechanism in (SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER):
            continue
        if mechanism != PLAIN or PLAIN not in mechanisms:
            raise WrongListeners(f"listener {name}: only PLAIN has users in {JAAS}, and where it is enabled")
        try:
            return plain_users(line)
        except ValueError as error:
            raise WrongListeners(f"listener {name}: {JAAS} of PLAIN: {error}") from None
    return {}


def _require_known(configs: Mapping[str, str], found: tuple[ListenerConfig, ...]) -> None:
    """Nothing half set is served: a config of no listener, or of SASL where no listener has it, protects nothing."""
    names = {one.name.lower() for one in found}
    for config in sorted(configs):
        if not config.startswith(LISTENER_PREFIX):
            continue
        name, _, rest = config.removeprefix(LISTENER_PREFIX).partition(".")
        if name == REST.lower() and (rest.startswith("ssl.") or rest == f"{PLAIN.lower()}.{JAAS}"):
            continue  # bmq/server/rest_security.py looks at them
        if name not in names:
            raise WrongListeners(f"{config} is of a listener {name.upper()}, which there is not")
        base = next(
            (rest.removeprefix(f"{one.lower()}.") for one in MECHANISMS if rest.startswith(f"{one.lower()}.")), rest
        )
        if not base.startswith("ssl.") and base not in (MECHANISMS_SETTING, SESSION, JAAS, *_KERBEROS):
            raise WrongListeners(f"{config} is not one of this release")
    has_sasl = any(one.security.protocol.is_sasl for one in found)
    if not has_sasl and (configs.keys() & {SESSION, MECHANISMS_SETTING, KERBEROS_KEYTAB} or _has_jaas(configs)):
        raise WrongListeners(
            f"settings of SASL protect nothing: no listener has SASL; see {LISTENERS} and {PROTOCOLS}, such as "
            f"{PLAINTEXT}:{SecurityProtocol.SASL_PLAINTEXT.name}"
        )


def _has_jaas(configs: Mapping[str, str]) -> bool:
    own = f"{LISTENER_PREFIX}{REST.lower()}."
    return any(JAAS in one and not one.startswith(own) for one in configs)
