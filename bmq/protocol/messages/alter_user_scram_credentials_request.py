"""AlterUserScramCredentialsRequest: every field of every version served. Written by tools/generate_messages.py; do not edit."""

import dataclasses
from collections.abc import Sequence
from typing import Final

from bmq.protocol.formats import Format, FormatField
from bmq.protocol.message import Message


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ScramCredentialDeletion(Message):
    """A part of AlterUserScramCredentialsRequest."""

    name: str
    mechanism: int

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class ScramCredentialUpsertion(Message):
    """A part of AlterUserScramCredentialsRequest."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: bytes = b"",
        salted_password: bytes = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


@dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)
class AlterUserScramCredentialsRequest(Message):
    """The message."""

    deletions: Sequence[ScramCredentialDeletion]
    upsertions: Sequence[ScramCredentialUpsertion]

    def __init__(
        self,
        *,
        deletions: Sequence[ScramCredentialDeletion] = (),
        upsertions: Sequence[ScramCredentialUpsertion] = (),
    ) -> None:
        self.deletions = deletions
        self.upsertions = upsertions


_SCRAM_CREDENTIAL_DELETION: Final = Format(
    ScramCredentialDeletion,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("mechanism", "int8"),
    ),
)
_SCRAM_CREDENTIAL_UPSERTION: Final = Format(
    ScramCredentialUpsertion,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("name", "string"),
        FormatField("mechanism", "int8"),
        FormatField("iterations", "int32"),
        FormatField("salt", "bytes"),
        FormatField("salted_password", "bytes"),
    ),
)
FORMAT: Final = Format(
    AlterUserScramCredentialsRequest,
    version_min=0,
    version_max=0,
    flexible_from=0,
    fields=(
        FormatField("deletions", entity=_SCRAM_CREDENTIAL_DELETION, is_array=True),
        FormatField("upsertions", entity=_SCRAM_CREDENTIAL_UPSERTION, is_array=True),
    ),
)
