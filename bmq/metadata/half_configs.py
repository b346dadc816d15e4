"""Topic configs of half messages, and the addresses that checks may go to. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from bmq.metadata.config_keys import ConfigKey, ConfigType, InvalidConfig, Value, between
from bmq.metadata.dead_letter_configs import check_topic_name
from bmq.protocol.retry_topics import LEVELS_CONFIG

ENABLE: Final = "bmq.half.enable"
CHECK_FIRST_MS: Final = "bmq.half.check.first.ms"
CHECK_INTERVAL_MS: Final = "bmq.half.check.interval.ms"
CHECKS_MAX: Final = "bmq.half.check.max"
CHECK_URL: Final = "bmq.half.check.url"
CHECK_TOPIC: Final = "bmq.half.check.topic"
GIVEN_UP_TOPIC: Final = "bmq.half.given.up.topic"
URL_CHARACTERS_MAX: Final = 1_000
_DAY_MS: Final = 24 * 3_600_000
_PORTS: Final = {"http": 80, "https": 443}


class CheckUrl(NamedTuple):
    """`host`: in lower case, without brackets."""

    scheme: str
    host: str
    port: int


class BadCheckUrl(ValueError):
    """Why checks do not go there, in a sentence."""


def check_url(text: str) -> CheckUrl:
    """Raises BadCheckUrl: the scheme, a name or a password in it, an address that is no service's."""
    if len(text) > URL_CHARACTERS_MAX or not text.isprintable() or " " in text:
        raise BadCheckUrl(f"the URL has more than {URL_CHARACTERS_MAX} characters, or one that no URL has")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise BadCheckUrl(f"the URL cannot be read: {error}") from error
    if parts.scheme not in _PORTS or not host:
        raise BadCheckUrl("the URL has to be http://host… or https://host…")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise BadCheckUrl("the URL has a user, a password or a fragment, which checks do not take")
    refuse_address(host)
    return CheckUrl(parts.scheme, host, _PORTS[parts.scheme] if port is None else port)


def refuse_address(host: str) -> None:
    """Raises BadCheckUrl for an address, in digits, of metadata services and others that are no host's own."""
    try:
        address = ip_address(host)
    except ValueError:
        return  # a name; what it stands for is looked at when it is asked
    mapped = getattr(address, "ipv4_mapped", None) or address
    if mapped.is_link_local or mapped.is_multicast or mapped.is_unspecified:
        raise BadCheckUrl(f"{host} is a link-local, multicast or unspecified address, where metadata services are")


def _url(name: str, value: Value) -> None:
    if value:
        try:
            check_url(str(value))
        except BadCheckUrl as error:
            raise InvalidConfig(f"Invalid value {value} for configuration {name}: {error}") from error


def _topic(name: str, value: Value) -> None:
    check_topic_name(name, value, "names of internal topics begin so")


HALF_CONFIGS: Final = (
    ConfigKey(
        ENABLE,
        ConfigType.BOOLEAN,
        "false",
        "Records with the header bmq-half (a check id) stay hidden until they are committed or rolled back, by a record with the "
        "header bmq-half-commit or bmq-half-rollback (their offset), by REST, or by the answer to a check. Such a topic is not "
        "compacted and takes no transactions. 'false' takes no new ones; those that wait are still checked.",
    ),
    ConfigKey(
        CHECK_FIRST_MS,
        ConfigType.LONG,
        "6000",
        "How long after a half message was held its producer is first asked what became of it.",
        between(100, _DAY_MS),
    ),
    ConfigKey(
        CHECK_INTERVAL_MS,
        ConfigType.LONG,
        "30000",
        "How long after that, and then again, the next check follows.",
        between(1_000, _DAY_MS),
    ),
    ConfigKey(
        CHECKS_MAX,
        ConfigType.INT,
        "15",
        "Checks of a half message; an interval after the last one it is given up.",
        between(1, 1_000),
    ),
    ConfigKey(
        CHECK_URL,
        ConfigType.STRING,
        "",
        "Where checks are posted to, if the setting [half_checks] hosts names the host. Empty: nowhere.",
        _url,
    ),
    ConfigKey(
        CHECK_TOPIC,
        ConfigType.STRING,
        "",
        "The topic that gets a record for each check, if errors.deadletterqueue.group.enable is true there. Empty: none. "
        "Without this and bmq.half.check.url half messages wait until they are decided.",
        _topic,
    ),
    ConfigKey(
        GIVEN_UP_TOPIC,
        ConfigType.STRING,
        "",
        "The topic that gets half messages that are undecided after all checks, if errors.deadletterqueue.group.enable is "
        "true there. Empty: they stay undecided, and are not checked any more.",
        _topic,
    ),
)


def require_half(values: Mapping[str, Value]) -> None:
    """Raises InvalidConfig for values of a topic that do not go together."""
    policy = values["cleanup.policy"]
    if values[ENABLE] and isinstance(policy, tuple) and "compact" in policy:
        raise InvalidConfig(f"{ENABLE} holds records back, which compaction cannot see: cleanup.policy must be delete")
    if values[ENABLE] and values[LEVELS_CONFIG]:
        raise InvalidConfig(f"{ENABLE} and {LEVELS_CONFIG} do not go together: a retry topic holds all of its records")
    if values[CHECK_URL] and values[CHECK_TOPIC]:
        raise InvalidConfig(f"{CHECK_URL} and {CHECK_TOPIC} are both set: half messages are checked in one way")
