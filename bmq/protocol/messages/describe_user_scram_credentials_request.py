"""DescribeUserScramCredentialsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class UserName(Message):
    """A part of DescribeUserScramCredentialsRequest."""

    name: str

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class DescribeUserScramCredentialsRequest(Message):
    """The message."""

    users: Sequence[UserName] | None

    def __init__(
        self,
        *,
        users: Sequence[UserName] | None = (),
    ) -> None:
        self.users = users


_USER_NAME: Final = Format(
    UserName,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("name", "string"),),
)
FORMAT: Final = Format(
    DescribeUserScramCredentialsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(FormatField("users", entity=_USER_NAME, is_array=True, nullable_since=0),),
)
