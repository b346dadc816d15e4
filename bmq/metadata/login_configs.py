"""Kafka's broker configs of logins: sessions, mechanisms, delegation tokens. Pure."""

from __future__ import annotations

from typing import Final

from bmq.metadata.config_keys import ConfigKey, ConfigType, at_least

_INT, _LONG, _LIST, _PASSWORD = ConfigType.INT, ConfigType.LONG, ConfigType.LIST, ConfigType.PASSWORD

_STRING, _BOOLEAN = ConfigType.STRING, ConfigType.BOOLEAN
_OAUTH: Final = "sasl.oauthbearer"
JWKS_URL: Final = f"{_OAUTH}.jwks.endpoint.url"
ISSUER: Final = f"{_OAUTH}.expected.issuer"
AUDIENCE: Final = f"{_OAUTH}.expected.audience"
ANY_ISSUER: Final = "bmq.sasl.oauthbearer.any.issuer"
ANY_AUDIENCE: Final = "bmq.sasl.oauthbearer.any.audience"
ALLOWED_URLS: Final = "bmq.sasl.oauthbearer.allowed.urls"

_BEARER: Final = (
    ConfigKey(JWKS_URL, _STRING, None, "Where the keys of bearer tokens are read: https:// or file://."),
    ConfigKey(ALLOWED_URLS, _LIST, "", "The addresses that keys of bearer tokens may be read from."),
    ConfigKey(ISSUER, _STRING, None, "The issuer that bearer tokens have to name."),
    ConfigKey(AUDIENCE, _LIST, "", "Bearer tokens have to be for one of these audiences."),
    ConfigKey(ANY_ISSUER, _BOOLEAN, "false", "Bearer tokens of every issuer are accepted."),
    ConfigKey(ANY_AUDIENCE, _BOOLEAN, "false", "Bearer tokens for other services are accepted as well."),
    ConfigKey(f"{_OAUTH}.clock.skew.seconds", _INT, "30", "How far clocks may be apart.", at_least(0)),
    ConfigKey(f"{_OAUTH}.sub.claim.name", _STRING, "sub", "The claim with the name of the principal."),
    ConfigKey(f"{_OAUTH}.scope.claim.name", _STRING, "scope", "The claim with the scopes."),
    ConfigKey(
        f"{_OAUTH}.jwks.endpoint.refresh.ms", _LONG, "3600000", "How often the keys are read again.", at_least(1)
    ),
    ConfigKey(
        f"{_OAUTH}.jwks.endpoint.retry.backoff.ms",
        _LONG,
        "100",
        "The first pause after the keys could not be read.",
        at_least(1),
    ),
    ConfigKey(
        f"{_OAUTH}.jwks.endpoint.retry.backoff.max.ms",
        _LONG,
        "10000",
        "The longest pause after the keys could not be read.",
        at_least(1),
    ),
)

_KERBEROS: Final = (
    ConfigKey(
        "bmq.sasl.kerberos.principal", _STRING, None, "The principal that clients log in to by GSSAPI: NAME/HOST@REALM."
    ),
    ConfigKey("bmq.sasl.kerberos.keytab", _STRING, None, "The file with that principal's key, read at each login."),
    ConfigKey(
        "sasl.kerberos.service.name", _STRING, None, "Clients' name for the service: the principal begins with it."
    ),
    ConfigKey(
        "sasl.kerberos.principal.to.local.rules",
        _LIST,
        "DEFAULT",
        "Rules that turn the principals which log in by GSSAPI into names of users.",
    ),
)

LOGIN_CONFIGS: Final = (
    *_BEARER,
    *_KERBEROS,
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
