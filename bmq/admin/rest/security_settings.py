"""What an operator may set about who uses the REST address. Certificates have Kafka's names: `listener.name.rest.ssl.*`."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from bmq.admin.rest.authentication import SCHEMES
from bmq.dataclass import dataclass

ANY_HOST: Final = "*"
_HOST_NAME: Final = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*", re.ASCII)


class RestProtocol(StrEnum):
    """How the REST address is spoken to."""

    HTTP = "http"
    HTTPS = "https"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestSecuritySettings:
    """`logins`: basic (users of SCRAM, and of the JAAS line), bearer (`tokens_file`), or both after a comma; empty: nobody
    has to log in. `tokens_file`: what `bmq token` writes.
    """

    protocol: RestProtocol = RestProtocol.HTTP
    """`https`: the REST address speaks TLS."""
    logins: str = ""
    """`basic`, `bearer` or both after a comma; empty: REST needs no login."""
    tokens_file: str = ""
    """The file of bearer tokens that `bmq token` writes; others may not write it."""
    host_names: str = ""
    """Names, after commas, by which REST is asked besides addresses; `*`: any; empty: on loopback `localhost`, else any."""

    def schemes(self) -> frozenset[str]:
        """Of `logins`. Raises ValueError with one sentence."""
        names = [part.strip().lower() for part in self.logins.split(",") if part.strip()]
        if unknown := sorted(set(names) - set(SCHEMES)):
            raise ValueError(f"rest_security.logins has {unknown[0][:40]!r}, and may have {', '.join(SCHEMES)}")
        return frozenset(names)

    def hosts(self) -> frozenset[str]:
        """Of `host_names`. Raises ValueError with one sentence."""
        names = frozenset(part.strip().lower() for part in self.host_names.split(",") if part.strip())
        for name in sorted(names):
            if name != ANY_HOST and not _HOST_NAME.fullmatch(name):
                raise ValueError(f"rest_security.host_names has {name[:40]!r}, and may have names without a port, or *")
        return names
