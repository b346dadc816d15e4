"""The NameNode's side of HDFS: names, leases and block locations. One method for each call of ClientProtocol we use.

Paths are absolute. Every method takes `retry_max_s`, how long to go on trying (None: as configured), and may raise
StorageUnavailable, AuthenticationRequired, PermissionRefused, NotADirectory, and if it changes anything SafeMode and
QuotaExceeded. Calls about a file being written take its `file_id`: they then find it although its directory was renamed.

`complete`, `recover_lease`, `renew_lease`, `fsync`, `bump`, `add_block`, `make_directory` and `prove` may be carried out
twice without harm. `create`, `append`, `rename`, `delete` and `update_pipeline` may not: the NameNode's retry cache
answers a retry. It outlives a restart and a failover but not its expiry (10 minutes), a checkpoint followed by a
restart, or `dfs.namenode.enable.retrycache=false`. If the cache entry is lost, the retry meets the first try's result:
`create` raises AlreadyExists (a file without data whose holder is the caller), `append` AlreadyExists (the caller
writes it), `rename` FileMissing, `delete` returns False.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random
from typing import Final

from google.protobuf.message import Message

from bmq.hdfs.blocks import Block, DataNode, FileBlocks, LocatedBlock
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.delegation_token import KIND, DelegationToken
from bmq.hdfs.failover import UNCHANGED, Failover
from bmq.hdfs.file_ids import FileIds
from bmq.hdfs.proto.hdfs_pb2 import FsPermission, HdfsFileStatus, Token
from bmq.hdfs.proto.namenode_pb2 import (
    APPEND,
    CREATE,
    IGNORE_CLIENT_LOCALITY,
    AddBlockRequest,
    AddBlockResponse,
    AppendRequest,
    AppendResponse,
    CompleteRequest,
    CompleteResponse,
    CreateRequest,
    CreateResponse,
    DataEncryptionKey,
    DeleteRequest,
    DeleteResponse,
    FsyncRequest,
    FsyncResponse,
    GetBlockLocationsRequest,
    GetBlockLocationsResponse,
    GetDataEncryptionKeyRequest,
    GetDataEncryptionKeyResponse,
    GetDelegationTokenRequest,
    GetDelegationTokenResponse,
    GetFileInfoResponse,
    GetListingRequest,
    GetListingResponse,
    GetLocatedFileInfoRequest,
    GetServerDefaultsRequest,
    GetServerDefaultsResponse,
    IsFileClosedRequest,
    IsFileClosedResponse,
    MkdirsRequest,
    MkdirsResponse,
    RecoverLeaseRequest,
    RecoverLeaseResponse,
    Rename2Request,
    Rename2Response,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    RenewLeaseRequest,
    RenewLeaseResponse,
    SetTimesRequest,
    SetTimesResponse,
    UpdateBlockForPipelineRequest,
    UpdateBlockForPipelineResponse,
    UpdatePipelineRequest,
    UpdatePipelineResponse,
)
from bmq.hdfs.rpc_codec import M
from bmq.hdfs.server_logins import namenode_authentication
from bmq.log.store import FileMissing, StoreError

LISTING_ENTRIES_MAX: Final = 1 << 20  # dfs.namenode.fs-limits.max-directory-items

_FILE_MODE: Final = FsPermission(perm=0o644)
_DIRECTORY_MODE: Final = FsPermission(perm=0o755)
_WHOLE_FILE: Final = (1 << 63) - 1


class NameNode:
    """Calls to whichever NameNode is active now."""

    def __init__(self, config: HdfsConfig, random: Random) -> None:
        self.file_ids = FileIds()
        self._failover = Failover(config, namenode_authentication(config), random)

    # --- names
    async def file_info(self, path: str, *, retry_max_s: float | None = None) -> HdfsFileStatus | None:
        """The status of a path, read after the call began; None if nothing is there. See `is_open`.

        For a closed file, `.locations` is the same as the answer of `locations`.
        """
        # This call's answer includes the locations, and so whether the file is open, at the same cost.
        request = GetLocatedFileInfoRequest(src=path, need_block_token=True)
        response = await self._call("getLocatedFileInfo", request, GetFileInfoResponse, path, retry_max_s)
        return response.fs if response.HasField("fs") else None

    async def prove(self, path: str, *, retry_max_s: float | None = None) -> HdfsFileStatus | None:
        """As `file_info`, from a NameNode that had not been replaced when it was asked. Also raises SafeMode.

        A replaced NameNode that does not know it yet (it stood still) answers every read from its old state. So we make
        it change something first: a modification time goes into the edit log, and a quorum journal takes no more
        entries from a replaced NameNode, which exits instead of answering. Later reads from the same NameNode are at
        least as new as that entry. `renewLease` and a `mkdirs` of an existing directory prove nothing: neither is
        logged.
        """
        self.file_ids.require_present()
        request = SetTimesRequest(src=path, mtime=time.time_ns() // 1_000_000, atime=UNCHANGED)
        try:
            _, index = await self._failover.call_anywhere(
                "setTimes", request, SetTimesResponse, path=path, retry_max_s=retry_max_s
            )
        except FileMissing:
            return None
        look = GetLocatedFileInfoRequest(src=path, need_block_token=True)
        response = await self._failover.call_at(index, "getLocatedFileInfo", look, GetFileInfoResponse, path=path)
        return response.fs if response.HasField("fs") else None

    async def listing(self, path: str, *, retry_max_s: float | None = None) -> list[HdfsFileStatus]:
        """The entries of a directory in the byte order of their names, which are in `.path`. See `is_open`.

        For a file: the file itself, with an empty name. A long directory is read page by page, so entries made or
        renamed meanwhile may be missed or seen twice. Raises FileMissing.
        """
        entries: list[HdfsFileStatus] = []
        start_after = b""
        while True:
            request = GetListingRequest(src=path, start_after=start_after, need_location=True)
            response = await self._call("getListing", request, GetListingResponse, path, retry_max_s)
            if not response.HasField("dir_list"):
                raise FileMissing(f"{path}: no such directory")
            page = response.dir_list.partial_listing
            entries.extend(page)
            if not page or not response.dir_list.remaining_entries:
                return entries
            if len(entries) > LISTING_ENTRIES_MAX:
                raise StoreError(f"{path}: a directory of more than {LISTING_ENTRIES_MAX} entries")
            start_after = page[-1].path

    async def make_directory(self, path: str, *, with_parents: bool, retry_max_s: float | None = None) -> None:
        """Make a directory; succeeds if it exists. Raises FileMissing (no parent)."""
        request = MkdirsRequest(src=path, masked=_DIRECTORY_MODE, create_parent=with_parents)
        if not (await self._call("mkdirs", request, MkdirsResponse, path, retry_max_s)).result:
            raise StoreError(f"{path}: the NameNode did not make the directory and gave no reason")

    async def rename(self, source: str, target: str, *, retry_max_s: float | None = None) -> None:
        """Rename without overwriting, never into a directory. Raises AlreadyExists, FileMissing."""
        request = Rename2Request(src=source, dst=target, overwrite_dest=False)
        await self._call("rename2", request, Rename2Response, f"{source} to {target}", retry_max_s)

    async def delete(self, path: str, *, recursive: bool, retry_max_s: float | None = None) -> bool:
        """Delete a path. Returns False if nothing was there. Raises DirectoryNotEmpty."""
        request = DeleteRequest(src=path, recursive=recursive)
        return (await self._call("delete", request, DeleteResponse, path, retry_max_s)).result

    # --- writing
    async def create(
        self, path: str, *, holder: str, block_bytes: int, replication: int, retry_max_s: float | None = None
    ) -> int:
        """Make an open file whose writer is `holder`. Returns its file id. Neither overwrites nor makes parents.

        Raises AlreadyExists (open or closed, by any holder), FileMissing (no parent: fenced), NamespaceWentBack.
        """
        above = self.file_ids.highest
        request = CreateRequest(
            src=path,
            masked=_FILE_MODE,
            client_name=holder,
            create_flag=CREATE,
            create_parent=False,
            replication=replication,
            block_size=block_bytes,
        )
        file_id = (await self._call("create", request, CreateResponse, path, retry_max_s)).fs.file_id
        self.file_ids.given(file_id, above=above, path=path)
        return file_id

    async def append(self, path: str, *, holder: str, retry_max_s: float | None = None) -> LocatedBlock | None:
        """Open a closed file again, at its end, for `holder`; its last block, under the stamp it was closed with.

        None when that block is exactly as long as blocks of this file may be: the file is open all the same. Raises
        AlreadyExists (somebody writes it), FileMissing.
        """
        request = AppendRequest(src=path, client_name=holder, flag=APPEND)
        response = await self._call("append", request, AppendResponse, path, retry_max_s)
        return LocatedBlock.of(response.block) if response.HasField("block") else None

    async def add_block(
        self,
        path: str,
        *,
        holder: str,
        file_id: int,
        previous: Block | None = None,
        exclude: Sequence[DataNode] = (),
        retry_max_s: float | None = None,
    ) -> LocatedBlock:
        """Allocate the next block; `previous` is the one before it. May name fewer nodes than the file should have.

        While the last block is empty, the NameNode takes another call for a retry: the same block on the same nodes,
        whatever `exclude` says. Raises NoDataNodes, LeaseLost, FileMissing.
        """
        request = AddBlockRequest(
            src=path,
            client_name=holder,
            previous=previous.message() if previous is not None else None,
            exclude_nodes=[node.message for node in exclude],
            file_id=file_id,
            flags=[IGNORE_CLIENT_LOCALITY],
        )
        return LocatedBlock.of((await self._call("addBlock", request, AddBlockResponse, path, retry_max_s)).block)

    async def fsync(
        self, path: str, *, holder: str, file_id: int, length_bytes: int, retry_max_s: float | None = None
    ) -> None:
        """Publish the last block's length as part of the file's. Raises LeaseLost, FileMissing."""
        request = FsyncRequest(src=path, client=holder, last_block_length=length_bytes, file_id=file_id)
        await self._call("fsync", request, FsyncResponse, path, retry_max_s)

    async def complete(
        self, path: str, *, holder: str, file_id: int, last: Block | None, retry_max_s: float | None = None
    ) -> bool:
        """Close the file with `last` as its last block, at its length; False = not yet, call again.

        True says nothing about who closed it. Raises LeaseLost, FileMissing.
        """
        request = CompleteRequest(
            src=path, client_name=holder, last=last.message() if last is not None else None, file_id=file_id
        )
        return (await self._call("complete", request, CompleteResponse, path, retry_max_s)).result

    async def bump(self, block: Block, *, holder: str, retry_max_s: float | None = None) -> LocatedBlock:
        """Get a new generation stamp for `block`: the block of the answer has it, and no nodes. Raises LeaseLost.

        Where block tokens are on, the answer's token allows writes, and its block keeps the read token of `block`.
        """
        request = UpdateBlockForPipelineRequest(block=block.message(), client_name=holder)
        response = await self._call(
            "updateBlockForPipeline", request, UpdateBlockForPipelineResponse, _about(block), retry_max_s
        )
        return LocatedBlock.of(response.block).with_read_token(block)

    async def update_pipeline(
        self, *, holder: str, old: Block, new: Block, nodes: Sequence[DataNode], retry_max_s: float | None = None
    ) -> None:
        """Replace `old` with `new`, at least as long as the NameNode knows it, on `nodes`. Raises LeaseLost."""
        request = UpdatePipelineRequest(
            client_name=holder,
            old_block=old.message(),
            new_block=new.message(),
            new_nodes=[node.message.id for node in nodes],
            storage_ids=[node.storage_id for node in nodes],
        )
        await self._call("updatePipeline", request, UpdatePipelineResponse, _about(old), retry_max_s)

    # --- leases
    async def renew_lease(self, holder: str, *, retry_max_s: float | None = None) -> None:
        """Renew the lease on all files of this holder. This does not prove that it still owns any of them."""
        request = RenewLeaseRequest(client_name=holder)
        await self._call("renewLease", request, RenewLeaseResponse, f"lease of {holder}", retry_max_s)

    async def recover_lease(self, path: str, *, holder: str, retry_max_s: float | None = None) -> bool:
        """Take the file from its writer. Returns True if it is closed now, else see `is_file_closed`. Raises FileMissing."""
        request = RecoverLeaseRequest(src=path, client_name=holder)
        return (await self._call("recoverLease", request, RecoverLeaseResponse, path, retry_max_s)).result

    async def is_file_closed(self, path: str, *, retry_max_s: float | None = None) -> bool:
        """Whether the file is closed. Raises FileMissing."""
        request = IsFileClosedRequest(src=path)
        return (await self._call("isFileClosed", request, IsFileClosedResponse, path, retry_max_s)).result

    # --- blocks
    async def locations(self, path: str, *, retry_max_s: float | None = None) -> FileBlocks:
        """All blocks of a file. Its nodes come in another order each time. Raises FileMissing (also: a directory)."""
        request = GetBlockLocationsRequest(src=path, offset=0, length=_WHOLE_FILE)
        response = await self._call("getBlockLocations", request, GetBlockLocationsResponse, path, retry_max_s)
        if not response.HasField("locations"):
            raise FileMissing(f"{path}: no such file")
        return FileBlocks.of(response.locations)

    # --- what the cluster demands of connections to DataNodes
    async def is_data_encrypted(self) -> bool:
        """The NameNode's value of dfs.encrypt.data.transfer."""
        request = GetServerDefaultsRequest()
        response = await self._call(
            "getServerDefaults", request, GetServerDefaultsResponse, "the server's defaults", None
        )
        return response.server_defaults.encrypt_data_transfer

    async def data_encryption_key(self) -> DataEncryptionKey:
        """The cluster's present key for connections to DataNodes. Raises StoreError: the NameNode gives none."""
        request = GetDataEncryptionKeyRequest()
        response = await self._call(
            "getDataEncryptionKey", request, GetDataEncryptionKeyResponse, "the encryption key", None
        )
        if not response.HasField("data_encryption_key"):
            raise StoreError("the NameNode gives no key for connections to DataNodes, although it wants them encrypted")
        return response.data_encryption_key

    async def delegation_token(self, *, renewer: str = "") -> DelegationToken:
        """Get a new token of this login's user, by which other processes log in. Needs a Kerberos login.

        It is valid for dfs.namenode.delegation.token.renew-interval, a day by default. `renewer`: the principal that may
        renew it; empty: none. Raises StoreError: the NameNode gives none.
        """
        request = GetDelegationTokenRequest(renewer=renewer)
        response = await self._call(
            "getDelegationToken", request, GetDelegationTokenResponse, "a delegation token", None
        )
        if not response.HasField("token"):
            raise StoreError("the NameNode gives no delegation token, although its clients log in by Kerberos")
        return DelegationToken(response.token.identifier, response.token.password)

    async def renew_delegation_token(self, token: DelegationToken) -> int:
        """Renew the token for another interval, up to dfs.namenode.delegation.token.max-lifetime. Returns its new end, in ms.

        Needs the Kerberos login of its renewer. Raises StoreError: it has ended, or another user may renew it.
        """
        named = Token(identifier=token.identifier, password=token.password, kind=KIND, service="")
        response = await self._call(
            "renewDelegationToken",
            RenewDelegationTokenRequest(token=named),
            RenewDelegationTokenResponse,
            "a delegation token",
            None,
        )
        return response.new_expiry_time

    async def close(self) -> None:
        """Drop the connections; calls under way fail with StorageUnavailable."""
        self._failover.close()

    async def _call(
        self, method: str, request: Message, response_type: type[M], path: str, retry_max_s: float | None
    ) -> M:
        self.file_ids.require_present()
        return await self._failover.call(method, request, response_type, path=path, retry_max_s=retry_max_s)


def is_open(status: HdfsFileStatus) -> bool:
    """Whether the file is being written, or was never closed. Its length then leaves out the last block."""
    return status.locations.under_construction


def _about(block: Block) -> str:
    return f"block {block.block_id} of generation {block.generation_stamp}"
