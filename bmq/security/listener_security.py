"""What one listener demands of its clients: its protocol, and the SASL mechanisms it offers.

A listener's settings become one ListenerSecurity at the start; connections read it when they are made.
Source: SecurityProtocol and SaslConfigs of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from typing import Final

from bmq.dataclass import dataclass
from bmq.security.kerberos_names import ShortNameRules

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"
MECHANISMS: Final = (GSSAPI, PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER)
"""Every mechanism that Kafka's listeners may offer."""
SERVED: Final = frozenset(MECHANISMS)
"""Those that a login can be checked by here."""


class SecurityProtocol(Enum):
    """How bytes travel, and whether clients log in by SASL. The value is Kafka's number for it."""

    PLAINTEXT = 0
    SSL = 1
    SASL_PLAINTEXT = 2
    SASL_SSL = 3

    @property
    def is_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def is_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class KerberosService:
    """The service that clients log in to by GSSAPI. `principal`: NAME/HOST or NAME/HOST@REALM; `keytab`: the file with its key;
    `rules`: what makes users' names of clients' principals.
    """

    principal: str
    keytab: str
    rules: ShortNameRules = field(compare=False)


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """`name`: the listener's name, in capitals. `mechanisms`: enabled ones; empty unless the protocol has SASL.

    `reauthentication_max_ms`: the longest session by mechanism, "" for all others; 0 or absent: no limit (KIP-368).
    `jaas_users`: user names and passwords of the listener's JAAS line for PLAIN. They are secrets: `repr` leaves them
    out. `kerberos`: None where GSSAPI is not enabled.
    """

    name: str = "PLAINTEXT"
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanisms: frozenset[str] = frozenset()
    reauthentication_max_ms: Mapping[str, int] = field(default_factory=dict)
    jaas_users: Mapping[str, str] = field(default_factory=dict, repr=False)
    kerberos: KerberosService | None = None

    def session_max_ms(self, mechanism: str) -> int:
        """The longest session of clients that logged in by this mechanism; 0: no limit."""
        return self.reauthentication_max_ms.get(mechanism, self.reauthentication_max_ms.get("", 0))


def require_served(names: Iterable[str]) -> frozenset[str]:
    """The mechanisms of a setting. Raises ValueError that names the unknown ones, or says that there is none."""
    wanted = [name.strip() for name in names if name.strip()]
    unknown = sorted(set(wanted) - set(MECHANISMS))
    if unknown:
        raise ValueError(f"unknown SASL mechanisms: {', '.join(unknown)}; known ones are {', '.join(MECHANISMS)}")
    if not wanted:
        raise ValueError("a listener with SASL needs a mechanism: set sasl.enabled.mechanisms")
    return frozenset(wanted)
