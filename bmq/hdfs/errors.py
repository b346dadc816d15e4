"""Turns refusals of NameNodes and DataNodes into store errors, each with a sentence an operator can act on. Pure.

A caller above the store has to tell four cases apart: try again (StorageUnavailable), make space (StorageFull),
somebody else owns the file (FencedWriter), an operator has to fix something (the rest). The text keeps the Java
exception's name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bmq.log.store import (
    AlreadyExists,
    FencedWriter,
    FileMissing,
    LeaseHeld,
    StorageFull,
    StorageUnavailable,
    StoreError,
)

MESSAGE_CHARACTERS_MAX: Final = 500


class SetupRefused(Exception):
    """The DataNode did not take the block. `bad_link`: the node of the chain behind it that did not, as host:port."""

    def __init__(
        self, reason: str, *, is_unreachable: bool = False, is_connected: bool = True, bad_link: str = ""
    ) -> None:
        super().__init__(reason)
        self.is_unreachable = is_unreachable  # no connection at all, or no answer in time
        self.is_connected = is_connected
        self.bad_link = bad_link


class HandshakeFailed(Exception):
    """The login to a DataNode failed, or the bytes after it were damaged; one clause, without the node's name.

    `is_token_expired`: the block's token has expired, and a new one may work.
    """

    def __init__(self, reason: str, *, is_token_expired: bool = False) -> None:
        super().__init__(reason)
        self.is_token_expired = is_token_expired


def peers_words(text: str) -> str:
    """A server's message for one of our sentences: its first line, of bounded length, without terminal control characters."""
    first_line = text.partition("\n")[0].strip()[:MESSAGE_CHARACTERS_MAX]
    return "".join(one if one.isprintable() else "?" for one in first_line)


class RemoteError(Exception):
    """An exception a Hadoop server answered with. `exception_class`: the full Java name; `message`: its first line."""

    def __init__(self, exception_class: str, message: str) -> None:
        self.exception_class = exception_class
        self.message = peers_words(message)
        super().__init__(f"{self.name}: {self.message}")

    @property
    def name(self) -> str:
        """The class without its package and the class around it: `AccessControlException`."""
        return self.exception_class.replace("$", ".").rpartition(".")[2]


class ConnectionLost(StorageUnavailable):
    """A connection was lost while calls were under way. Whether the server carried them out is unknown."""


class CallTimedOut(StorageUnavailable):
    """A server did not answer a call in time. Whether the server carried it out is unknown."""


class AuthenticationRequired(StoreError):
    """The server demands SASL (Kerberos) or does not take this client's name for granted. Never retried."""


class PermissionRefused(StoreError):
    """The user may not do this. Never retried."""


class NotADirectory(StoreError):
    """A file stands where a directory should: the root, or a parent of the path."""


class DirectoryNotEmpty(StoreError):
    """A non-recursive delete of a directory that has entries."""


class EncryptionZone(StoreError):
    """A file would lie in an encryption zone, whose files bmq can neither read nor write. Never retried."""


class QuotaExceeded(StorageFull):
    """A quota of the directory, or the limit of entries in a directory, is reached."""


class SafeMode(StorageUnavailable):
    """The NameNode is in safe mode and accepts no changes."""


class NamespaceWentBack(StoreError):
    """HDFS has an older state than this process has seen (rule 55). Never retried: the process has to end."""


class NoDataNodes(StorageUnavailable):
    """No DataNode accepts a new block: none is live, all are excluded or busy, or none has space for a whole block."""


class LeaseLost(FencedWriter):
    """The NameNode no longer accepts this holder as the writer of this block. The caller decides what follows."""


class ReplicaMissing(StoreError):
    """This DataNode has no replica of that block, or only one of an older generation."""


def store_error(error: RemoteError, path: str) -> StoreError:
    """The store error for `error`, the server's answer to a call about `path`."""
    kind = _KINDS.get(error.name)
    if kind is AlreadyExists and _FILE_IN_THE_WAY in error.message:
        kind = NotADirectory  # making a directory where a file is; every other target that exists has another text
    elif kind is None:
        kind = next((kind for part, kind in _KINDS_BY_TEXT if part in error.message), StoreError)
    advice = _ADVICE.get(kind)
    if advice is not None:
        return kind(f"{path}: {advice}: {error.message} ({error.name})")
    return kind(f"{path}: {error.message} ({error.name})")


def is_standby(error: RemoteError) -> bool:
    """Whether another NameNode has to be asked: this one is not active, or it answers reads only."""
    return error.name in _STANDBY


def is_safe_mode(error: RemoteError) -> bool:
    """Whether the NameNode is in safe mode. Under HA the exception is wrapped in a RetriableException, whose message begins
    with its class.
    """
    return error.name == _SAFE_MODE or (error.name in _RETRIABLE and _SAFE_MODE in error.message)


def is_retriable(error: RemoteError) -> bool:
    """Whether the server asks for the same call again a little later."""
    return error.name in _RETRIABLE


_FILE_IN_THE_WAY: Final = "Path is not a directory"
_SAFE_MODE: Final = "SafeModeException"
_STANDBY: Final = frozenset({"StandbyException", "ObserverRetryOnActiveException"})
_RETRIABLE: Final = frozenset({"RetriableException", "RetryStartFileException", "NotReplicatedYetException"})

_Kind = Callable[[str], StoreError]

_KINDS: Final[dict[str, _Kind]] = {
    "FileNotFoundException": FileMissing,
    "FileAlreadyExistsException": AlreadyExists,
    "AlreadyBeingCreatedException": AlreadyExists,
    "ParentNotDirectoryException": NotADirectory,
    "PathIsNotDirectoryException": NotADirectory,
    "PathIsNotEmptyDirectoryException": DirectoryNotEmpty,
    "AccessControlException": PermissionRefused,
    "AuthorizationException": PermissionRefused,
    "NSQuotaExceededException": QuotaExceeded,
    "DSQuotaExceededException": QuotaExceeded,
    "QuotaByStorageTypeExceededException": QuotaExceeded,
    "MaxDirectoryItemsExceededException": QuotaExceeded,
    "DiskOutOfSpaceException": StorageFull,
    # Only `create` says so, in a zone: we name no version of its encryption.
    "UnknownCryptoProtocolVersionException": EncryptionZone,
    "LeaseExpiredException": LeaseLost,
    "RecoveryInProgressException": LeaseHeld,
    "ReplicaNotFoundException": ReplicaMissing,
    _SAFE_MODE: SafeMode,
    **dict.fromkeys((_STANDBY | _RETRIABLE), StorageUnavailable),
}

# Texts of plain IOExceptions from NameNodes (3.x). Each of the first group means that the block has a newer writer or
# is closed.
_KINDS_BY_TEXT: Final[tuple[tuple[str, _Kind], ...]] = (
    ("not the lease owner", LeaseLost),
    ("Unexpected BlockUCState", LeaseLost),
    ("mismatching GS", LeaseLost),
    ("but not UNDER_CONSTRUCTION", LeaseLost),
    ("looked like a retry to allocate block", LeaseLost),
    ("smaller size block", LeaseLost),
    ("could only be written to 0 of the", NoDataNodes),
    ("could only be replicated to 0 nodes", NoDataNodes),
    ("eplica generation stamp < block generation stamp", ReplicaMissing),
)

_ADVICE: Final[dict[_Kind, str]] = {
    PermissionRefused: "HDFS refuses it to this user; give the user the right, or set another user",
    QuotaExceeded: "an HDFS quota is used up; raise it or free space",
    EncryptionZone: (
        "it lies in an encryption zone of HDFS, which bmq does not write to; use a directory outside of zones, and"
        " dfs.encrypt.data.transfer or encrypted disks for secrecy"
    ),
    StorageFull: "HDFS has no space left; free some or add DataNodes",
    NotADirectory: "a file stands where a directory should be; move it away or use another root",
    SafeMode: "the NameNode is in safe mode and takes no changes",
    NoDataNodes: "no DataNode takes a new block; they are down, busy or full",
    LeaseHeld: "its lease is being recovered",
    DirectoryNotEmpty: "the directory has entries",
}
