"""What servers refuse, as errors of the store. The texts are those of Hadoop 3.5.0."""

from __future__ import annotations

import pytest

from bmq.hdfs.errors import (
    MESSAGE_CHARACTERS_MAX,
    DirectoryNotEmpty,
    EncryptionZone,
    LeaseLost,
    NoDataNodes,
    NotADirectory,
    PermissionRefused,
    QuotaExceeded,
    RemoteError,
    ReplicaMissing,
    SafeMode,
    is_retriable,
    is_safe_mode,
    is_standby,
    store_error,
)
from bmq.log.store import (
    AlreadyExists,
    FencedWriter,
    FileMissing,
    LeaseHeld,
    StorageFull,
    StorageUnavailable,
    StoreError,
)

pytestmark = pytest.mark.unit

PROTOCOL = "org.apache.hadoop.hdfs.protocol."
NAMENODE = "org.apache.hadoop.hdfs.server.namenode."

CASES: list[tuple[type[StoreError], str, str]] = [
    (FileMissing, "java.io.FileNotFoundException", "Parent directory doesn't exist: /a/5.open"),
    (FileMissing, "java.io.FileNotFoundException", "rename source /a/5.open is not found."),
    (FileMissing, "java.io.FileNotFoundException", "Path is not a file: /a"),
    (AlreadyExists, "org.apache.hadoop.fs.FileAlreadyExistsException", "/a/b for client 127.0.0.1 already exists"),
    (AlreadyExists, "org.apache.hadoop.fs.FileAlreadyExistsException", "rename destination /a/b already exists"),
    (
        AlreadyExists,
        PROTOCOL + "AlreadyBeingCreatedException",
        "Failed to CREATE_FILE /a/b for h on 127.0.0.1 because h is already the current lease holder.",
    ),
    (
        LeaseHeld,
        PROTOCOL + "RecoveryInProgressException",
        "Failed to CREATE_FILE /a/b for h2 on 127.0.0.1 because lease recovery is in progress. Try again later.",
    ),
    (NotADirectory, "org.apache.hadoop.fs.FileAlreadyExistsException", "Path is not a directory: /a/b"),
    (NotADirectory, "org.apache.hadoop.fs.ParentNotDirectoryException", "/a/b (is not a directory)"),
    (
        DirectoryNotEmpty,
        "org.apache.hadoop.fs.PathIsNotEmptyDirectoryException",
        "`/a is non empty': Directory is not empty",
    ),
    (
        PermissionRefused,
        "org.apache.hadoop.security.AccessControlException",
        'Permission denied: user=ann, access=WRITE, inode="/":root:supergroup:drwxr-xr-x',
    ),
    (
        QuotaExceeded,
        PROTOCOL + "NSQuotaExceededException",
        "The NameSpace quota (directories and files) of directory /a is exceeded: quota=2 file count=3",
    ),
    (
        QuotaExceeded,
        PROTOCOL + "DSQuotaExceededException",
        "The DiskSpace quota of /a is exceeded: quota = 1048576 B = 1 MB but diskspace consumed = 3145728 B = 3 MB",
    ),
    (
        QuotaExceeded,
        PROTOCOL + "FSLimitException$MaxDirectoryItemsExceededException",
        "The directory item limit of /a is exceeded: limit=1048576 items=1048576",
    ),
    (
        EncryptionZone,
        "org.apache.hadoop.crypto.UnknownCryptoProtocolVersionException",
        "No crypto protocol versions provided by the client are supported. Client provided: [] NameNode supports: "
        "[CryptoProtocolVersion{description='Unknown', version=0, unknownValue=null}]",
    ),
    (StorageFull, "org.apache.hadoop.util.DiskChecker$DiskOutOfSpaceException", "No space left"),
    (SafeMode, NAMENODE + "SafeModeException", "Cannot create file/a. Name node is in safe mode."),
    (
        NoDataNodes,
        "java.io.IOException",
        "File /a/b could only be written to 0 of the 1 minReplication nodes. There are 3 datanode(s) running and 3 "
        "node(s) are excluded in this operation.",
    ),
    (
        LeaseLost,
        NAMENODE + "LeaseExpiredException",
        "Client (=other) is not the lease owner (=h: /a/b (inode 16630) Holder other does not have any open files.",
    ),
    (
        LeaseLost,
        "java.io.IOException",
        "Unexpected BlockUCState: BP-1:blk_1_2 is COMPLETE but not UNDER_CONSTRUCTION",
    ),
    (LeaseLost, "java.io.IOException", "Commit block with mismatching GS. NN has blk_1_3, client submits blk_1_2"),
    (
        LeaseLost,
        "java.io.IOException",
        "Request looked like a retry to allocate block blk_1 but it already contains 10 bytes",
    ),
    (LeaseLost, "java.io.IOException", "Update (size=5 GS=1) to a smaller size block (size=4)"),
    (
        ReplicaMissing,
        "org.apache.hadoop.hdfs.server.datanode.ReplicaNotFoundException",
        "Replica does not exist BP-1:1073742061",
    ),
    (StorageUnavailable, "org.apache.hadoop.ipc.StandbyException", "Operation category WRITE is not supported"),
    (StorageUnavailable, "org.apache.hadoop.ipc.RetriableException", "NameNode still not started"),
    (StoreError, "java.io.IOException", "Specified block size 1000 is less than configured minimum value"),
    (StoreError, PROTOCOL + "FSLimitException$PathComponentTooLongException", "The maximum path component name limit"),
    (StoreError, "java.lang.NullPointerException", ""),
]


@pytest.mark.parametrize(
    ("expected", "exception_class", "message"), CASES, ids=[f"{case[1][-30:]}-{case[0].__name__}" for case in CASES]
)
def test_each_refusal_has_its_error(expected: type[StoreError], exception_class: str, message: str) -> None:
    remote = RemoteError(exception_class, message)
    error = store_error(remote, "/a/b")
    assert type(error) is expected
    text = str(error)
    assert text.startswith("/a/b: ")
    assert message in text
    assert text.endswith(f"({remote.name})")
    assert "$" not in remote.name
    assert "." not in remote.name


def test_only_the_first_line_of_a_stack_trace_is_kept_and_not_without_end() -> None:
    error = RemoteError("a.b.C$D", "  what happened\n\tat org.apache.hadoop.Some.method(Some.java:1)\n")
    assert (error.name, error.message, str(error)) == ("D", "what happened", "D: what happened")
    assert len(RemoteError("E", "x" * 100_000).message) == MESSAGE_CHARACTERS_MAX


def test_kinds_that_callers_tell_apart() -> None:
    assert issubclass(QuotaExceeded, StorageFull)
    assert issubclass(LeaseLost, FencedWriter)
    assert issubclass(SafeMode, StorageUnavailable)
    assert issubclass(NoDataNodes, StorageUnavailable)
    for lasting in (PermissionRefused, NotADirectory, DirectoryNotEmpty):
        assert not issubclass(lasting, StorageUnavailable)


def test_what_another_try_may_help() -> None:
    standby = RemoteError("org.apache.hadoop.ipc.StandbyException", "Operation category READ is not supported")
    observer = RemoteError("org.apache.hadoop.ipc.ObserverRetryOnActiveException", "")
    safe = RemoteError(NAMENODE + "SafeModeException", "Cannot create file/a.")
    wrapped = RemoteError("org.apache.hadoop.ipc.RetriableException", NAMENODE + "SafeModeException: Cannot create")
    busy = RemoteError("org.apache.hadoop.ipc.RetriableException", "Server too busy")
    other = RemoteError("java.io.IOException", "SafeModeException")
    assert [is_standby(error) for error in (standby, observer, safe, busy, other)] == [True, True, False, False, False]
    assert [is_safe_mode(error) for error in (safe, wrapped, busy, other)] == [True, True, False, False]
    assert [is_retriable(error) for error in (busy, wrapped, standby, other)] == [True, True, False, False]


@pytest.mark.parametrize("path", ["/a", "/a to /b"])
def test_a_sentence_says_what_to_do(path: str) -> None:
    denied = RemoteError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=ann")
    assert str(store_error(denied, path)) == (
        f"{path}: HDFS refuses it to this user; give the user the right, or set another user: "
        "Permission denied: user=ann (AccessControlException)"
    )
