"""DescribeDelegationTokenRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeDelegationTokenOwner(Message):
    """A part of DescribeDelegationTokenRequest."""

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
class DescribeDelegationTokenRequest(Message):
    """The message."""

    owners: Sequence[DescribeDelegationTokenOwner] | None

    def __init__(
        self,
        *,
        owners: Sequence[DescribeDelegationTokenOwner] | None = (),
    ) -> None:
        self.owners = owners


_DESCRIBE_DELEGATION_TOKEN_OWNER: Final = Format(
    DescribeDelegationTokenOwner,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(
        FormatField("principal_type", "string"),
        FormatField("principal_name", "string"),
    ),
)
FORMAT: Final = Format(
    DescribeDelegationTokenRequest,
    version_min=1,
    version_max=3,
    flexible_from=2,
    fields=(FormatField("owners", entity=_DESCRIBE_DELEGATION_TOKEN_OWNER, is_array=True, nullable_since=0),),
)
