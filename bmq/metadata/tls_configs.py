"""Broker configs of listeners with TLS, with Kafka's names, types and defaults. Each may also be given to one listener alone,
as `listener.name.NAME.ssl…`. Decisions only.
"""

from __future__ import annotations

from typing import Final

from bmq.metadata.config_keys import ConfigKey, ConfigType

LISTENER_PREFIX: Final = "listener.name."


def _key(name: str, kind: ConfigType, default: str | None, documentation: str) -> ConfigKey:
    return ConfigKey(name, kind, default, documentation)


TLS_CONFIGS: Final = (
    _key(
        "listener.security.protocol.map",
        ConfigType.STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "Which protocol each listener speaks, by its name.",
    ),
    _key(
        "ssl.allow.dn.changes",
        ConfigType.BOOLEAN,
        "false",
        "Whether a certificate with another name is taken over without a restart.",
    ),
    _key(
        "ssl.allow.san.changes",
        ConfigType.BOOLEAN,
        "false",
        "Whether a certificate that lacks alternative names of the one before is taken over without a restart.",
    ),
    _key("ssl.cipher.suites", ConfigType.LIST, "", "OpenSSL's names of ciphers for TLS 1.2; empty: its defaults."),
    _key("ssl.client.auth", ConfigType.STRING, "none", "Client certificates: none, requested or required."),
    _key("ssl.enabled.protocols", ConfigType.LIST, "TLSv1.2,TLSv1.3", "Versions of TLS that are spoken."),
    _key("ssl.key.password", ConfigType.PASSWORD, None, "Password of an encrypted private key."),
    _key("ssl.keystore.certificate.chain", ConfigType.PASSWORD, None, "The certificate and its chain as PEM text."),
    _key("ssl.keystore.key", ConfigType.PASSWORD, None, "The private key as PEM text (PKCS#8)."),
    _key("ssl.keystore.location", ConfigType.STRING, None, "A PEM file of private key and certificate chain."),
    _key("ssl.keystore.password", ConfigType.PASSWORD, None, "Refused: PEM files have no password."),
    _key("ssl.keystore.type", ConfigType.STRING, "JKS", "PEM is the only one that is read."),
    _key(
        "ssl.principal.mapping.rules",
        ConfigType.STRING,
        "DEFAULT",
        "How a client certificate's name becomes a principal (KIP-371).",
    ),
    _key("ssl.truststore.certificates", ConfigType.PASSWORD, None, "Trusted certificates as PEM text."),
    _key(
        "ssl.truststore.location",
        ConfigType.STRING,
        None,
        "A PEM file of the certificates that clients' are trusted by.",
    ),
    _key("ssl.truststore.password", ConfigType.PASSWORD, None, "Refused: PEM files have no password."),
    _key("ssl.truststore.type", ConfigType.STRING, "JKS", "PEM is the only one that is read."),
)
