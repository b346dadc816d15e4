"""Which listener settings are secret, and which belong to one listener. Decisions only.

A listener's own `listener.name.NAME.KEY` overrides KEY. For SASL, `listener.name.NAME.MECHANISM.KEY` overrides both. Names
are in lower case there. Source: KafkaConfig, AbstractConfig.valuesWithPrefixOverride of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bmq.metadata.tls_configs import LISTENER_PREFIX

_SECRET_PARTS: Final = ("jaas.config", "password", "secret", "ssl.keystore.key")


def is_secret(name: str) -> bool:
    """Whether the value of a setting of this name must not be shown."""
    return any(part in name.lower() for part in _SECRET_PARTS)


def without_listener_configs(kafka: Mapping[str, str]) -> dict[str, str]:
    """The broker configs without those of single listeners."""
    return {name: value for name, value in kafka.items() if not name.startswith(LISTENER_PREFIX)}
