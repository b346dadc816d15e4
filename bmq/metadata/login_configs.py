"""Kafka's broker configs of logins: sessions, mechanisms, delegation tokens. Pure."""

from __future__ import annotations

from typing import Final

from bmq.metadata.config_keys import ConfigKey, ConfigType, at_least

_INT, _LONG, _LIST, _PASSWORD = ConfigType.INT, ConfigType.LONG, ConfigType.LIST, ConfigType.PASSWORD

LOGIN_CONFIGS: Final = (
    ConfigKey(
        "connection.failed.authentication.delay.ms",
        _INT,
        "100",
        "The answer to a failed login waits for this time, and then the connection is closed.",
        at_least(0),
    ),
    ConfigKey("connections.max.reauth.ms", _LONG, "0", "Clients have to log in again within this time; 0: never."),
    ConfigKey("sasl.enabled.mechanisms", _LIST, "GSSAPI", "SASL mechanisms by which clients may log in."),
    ConfigKey(
        "delegation.token.secret.key",
        _PASSWORD,
        None,
        "The key of delegation tokens' passwords, the same at all nodes; without it there are no tokens.",
    ),
    ConfigKey(
        "delegation.token.max.lifetime.ms",
        _LONG,
        "604800000",
        "A delegation token cannot be renewed past this age.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.time.ms",
        _LONG,
        "86400000",
        "A delegation token counts for this long, from its creation or its last renewal on.",
        at_least(1),
    ),
    ConfigKey(
        "delegation.token.expiry.check.interval.ms",
        _LONG,
        "3600000",
        "How often expired delegation tokens are removed.",
        at_least(1),
    ),
)
