"""An HDFS delegation token: lets a process without Kerberos log in to the NameNodes as the user who got it. Pure."""

from __future__ import annotations

from dataclasses import field
from typing import Final

from bmq.dataclass import dataclass

KIND: Final = "HDFS_DELEGATION_TOKEN"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """As the NameNode gave it. Both parts are secret, and `repr` shows neither."""

    identifier: bytes = field(repr=False)
    password: bytes = field(repr=False)
