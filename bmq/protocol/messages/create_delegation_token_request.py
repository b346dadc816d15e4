"""CreateDelegationTokenRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreatableRenewers(Message):
    """A part of CreateDelegationTokenRequest."""

    principal_type: str
    principal_name: str

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class CreateDelegationTokenRequest(Message):
    """The message."""

    owner_principal_type: str | None
    owner_principal_name: str | None
    renewers: Sequence[CreatableRenewers]
    max_lifetime_ms: int

    def __init__(
        self,
        *,
        owner_principal_type: str | None = None,
        owner_principal_name: str | None = None,
        renewers: Sequence[CreatableRenewers] = (),
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = renewers
        self.max_lifetime_ms = max_lifetime_ms


_CREATABLE_RENEWERS: Final = Format(
    CreatableRenewers,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("principal_type", "string"),
        FormatField("principal_name", "string"),
    ),
)
FORMAT: Final = Format(
    CreateDelegationTokenRequest,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("owner_principal_type", "string", since=3, nullable_since=0),
        FormatField("owner_principal_name", "string", since=3, nullable_since=0),
        FormatField("renewers", entity=_CREATABLE_RENEWERS, is_array=True),
        FormatField("max_lifetime_ms", "int64"),
    ),
)
