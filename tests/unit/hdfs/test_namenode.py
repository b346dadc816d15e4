"""What each call to a NameNode carries, and what its answers mean."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.delegation_token import KIND, DelegationToken
from bmq.hdfs.errors import NamespaceWentBack
from bmq.hdfs.namenode import NameNode, is_open
from bmq.hdfs.proto.hdfs_pb2 import (
    DatanodeId,
    DatanodeInfo,
    DirectoryListing,
    ExtendedBlock,
    FsPermission,
    HdfsFileStatus,
    LocatedBlock,
    LocatedBlocks,
    Token,
)
from bmq.hdfs.proto.namenode_pb2 import (
    CREATE,
    IGNORE_CLIENT_LOCALITY,
    AddBlockRequest,
    AddBlockResponse,
    CompleteRequest,
    CompleteResponse,
    CreateRequest,
    CreateResponse,
    DeleteRequest,
    DeleteResponse,
    FsyncRequest,
    FsyncResponse,
    GetBlockLocationsRequest,
    GetBlockLocationsResponse,
    GetDelegationTokenRequest,
    GetDelegationTokenResponse,
    GetFileInfoResponse,
    GetListingRequest,
    GetListingResponse,
    GetLocatedFileInfoRequest,
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
    UpdateBlockForPipelineRequest,
    UpdateBlockForPipelineResponse,
    UpdatePipelineRequest,
    UpdatePipelineResponse,
)
from bmq.log.store import FileMissing, StoreError
from tests.fakes.hadoop_ipc import ReceivedCall, Script, ScriptedServer

pytestmark = [pytest.mark.unit, pytest.mark.timeout(20)]

BLOCK = Block("BP-1", 7, 1001, 4000)
BLOCK_MESSAGE = ExtendedBlock(pool_id="BP-1", block_id=7, generation_stamp=1001, num_bytes=4000)
TOKEN = Token(identifier=b"i", password=b"p", kind="k", service="s")


def node_message(number: int) -> DatanodeInfo:
    return DatanodeInfo(
        id=DatanodeId(
            ip_addr="10.0.0.1",
            host_name=f"dn{number}",
            datanode_uuid=f"uuid-{number}",
            xfer_port=9000 + number,
            info_port=9100 + number,
            ipc_port=9200 + number,
        ),
        location="/rack",
    )


def node(number: int) -> DataNode:
    return DataNode.of(node_message(number), f"DS-{number}")


def located(*numbers: int) -> LocatedBlock:
    return LocatedBlock(
        block=BLOCK_MESSAGE,
        offset=0,
        locs=[node_message(number) for number in numbers],
        corrupt=False,
        block_token=TOKEN,
        storage_ids=[f"DS-{number}" for number in numbers],
    )


def status(name: str = "", *, is_being_written: bool | None = False, **fields: int) -> HdfsFileStatus:
    """`is_being_written`: None for a directory."""
    message = HdfsFileStatus(
        file_type=HdfsFileStatus.IS_DIR if is_being_written is None else HdfsFileStatus.IS_FILE,
        path=name.encode(),
        length=fields.get("length", 0),
        permission=FsPermission(perm=0o644),
        owner="o",
        group="g",
        modification_time=1,
        access_time=1,
        file_id=fields.get("file_id", 0),
    )
    if is_being_written is not None:
        message.locations.CopyFrom(
            LocatedBlocks(file_length=0, under_construction=is_being_written, is_last_block_complete=False)
        )
    return message


@asynccontextmanager
async def namenode_answering(script: Script) -> AsyncIterator[tuple[NameNode, ScriptedServer]]:
    async with ScriptedServer(script) as server:
        namenode = NameNode(HdfsConfig(namenodes=(server.address,), root="/r", user="ann"), Random(1))
        yield namenode, server
        await namenode.close()


def answering(response: object) -> Script:
    return lambda call: call.answer(response)  # type: ignore[arg-type]


async def test_create_overwrites_nothing_and_makes_no_parents() -> None:
    response = CreateResponse(fs=status(file_id=16400))
    async with namenode_answering(answering(response)) as (namenode, server):
        assert await namenode.create("/r/a", holder="h", block_bytes=1 << 26, replication=3) == 16400
        (call,) = server.calls
        assert call.method == "create"
        assert call.protocol_name == "org.apache.hadoop.hdfs.protocol.ClientProtocol"
        assert call.request(CreateRequest) == CreateRequest(
            src="/r/a",
            masked=FsPermission(perm=0o644),
            client_name="h",
            create_flag=CREATE,
            create_parent=False,
            replication=3,
            block_size=1 << 26,
        )


@pytest.mark.safety
async def test_a_file_id_that_was_given_before_ends_all_calls() -> None:
    """Rule 55. Each of them would be carried out on a namespace that has forgotten what this process knows."""
    given = [16400, 16401, 16401]
    script: Script = lambda call: call.answer(CreateResponse(fs=status(file_id=given.pop(0))))  # noqa: E731
    async with namenode_answering(script) as (namenode, server):
        for name in "ab":
            await namenode.create(f"/r/{name}", holder="h", block_bytes=1 << 26, replication=3)
        with pytest.raises(NamespaceWentBack, match="/r/c was given the file id 16401"):
            await namenode.create("/r/c", holder="h", block_bytes=1 << 26, replication=3)
        with pytest.raises(NamespaceWentBack):
            await namenode.file_info("/r/a")
        with pytest.raises(NamespaceWentBack):
            await namenode.prove("/r")
        assert [call.method for call in server.calls] == ["create"] * 3


@pytest.mark.parametrize("previous", [None, BLOCK])
async def test_add_block_goes_by_file_id_and_leaves_nodes_out(previous: Block | None) -> None:
    async with namenode_answering(answering(AddBlockResponse(block=located(2, 1)))) as (namenode, server):
        found = await namenode.add_block("/r/a", holder="h", file_id=5, previous=previous, exclude=[node(3)])
        assert (found.block, found.nodes, found.token) == (BLOCK, (node(2), node(1)), TOKEN)
        assert [place.storage_id for place in found.nodes] == ["DS-2", "DS-1"]
        expected = AddBlockRequest(
            src="/r/a",
            client_name="h",
            exclude_nodes=[node_message(3)],
            file_id=5,
            flags=[IGNORE_CLIENT_LOCALITY],
        )
        if previous is not None:
            expected.previous.CopyFrom(BLOCK_MESSAGE)
        assert server.calls[0].request(AddBlockRequest) == expected


@pytest.mark.parametrize("result", [True, False])
@pytest.mark.parametrize("last", [None, BLOCK])
async def test_complete_names_the_last_block_and_its_length(last: Block | None, result: bool) -> None:
    async with namenode_answering(answering(CompleteResponse(result=result))) as (namenode, server):
        assert await namenode.complete("/r/a", holder="h", file_id=5, last=last) is result
        expected = CompleteRequest(src="/r/a", client_name="h", file_id=5)
        if last is not None:
            expected.last.CopyFrom(BLOCK_MESSAGE)
        assert server.calls[0].request(CompleteRequest) == expected
        assert len(server.calls) == 1


async def test_a_pipeline_is_updated_with_ids_and_storages_in_one_order() -> None:
    new = Block("BP-1", 7, 1002, 5000)
    async with namenode_answering(answering(UpdatePipelineResponse())) as (namenode, server):
        await namenode.update_pipeline(holder="h", old=BLOCK, new=new, nodes=[node(3), node(1)])
        assert server.calls[0].request(UpdatePipelineRequest) == UpdatePipelineRequest(
            client_name="h",
            old_block=BLOCK_MESSAGE,
            new_block=new.message(),
            new_nodes=[node_message(3).id, node_message(1).id],
            storage_ids=["DS-3", "DS-1"],
        )


async def test_a_bump_answers_with_the_new_stamp() -> None:
    answer = located()
    answer.block.generation_stamp = 1002
    async with namenode_answering(answering(UpdateBlockForPipelineResponse(block=answer))) as (namenode, server):
        bumped = await namenode.bump(BLOCK, holder="h")
        assert (bumped.block.generation_stamp, bumped.nodes, bumped.token) == (1002, (), TOKEN)
        assert server.calls[0].request(UpdateBlockForPipelineRequest) == UpdateBlockForPipelineRequest(
            block=BLOCK_MESSAGE, client_name="h"
        )


@pytest.mark.parametrize(
    ("ask", "method", "request_message", "response", "expected"),
    [
        (
            lambda n: n.fsync("/a", holder="h", file_id=5, length_bytes=9),
            "fsync",
            FsyncRequest(src="/a", client="h", last_block_length=9, file_id=5),
            FsyncResponse(),
            None,
        ),
        (
            lambda n: n.renew_lease("h"),
            "renewLease",
            RenewLeaseRequest(client_name="h"),
            RenewLeaseResponse(),
            None,
        ),
        (
            lambda n: n.recover_lease("/a", holder="h"),
            "recoverLease",
            RecoverLeaseRequest(src="/a", client_name="h"),
            RecoverLeaseResponse(result=False),
            False,
        ),
        (
            lambda n: n.is_file_closed("/a"),
            "isFileClosed",
            IsFileClosedRequest(src="/a"),
            IsFileClosedResponse(result=True),
            True,
        ),
        (
            lambda n: n.make_directory("/a", with_parents=False),
            "mkdirs",
            MkdirsRequest(src="/a", masked=FsPermission(perm=0o755), create_parent=False),
            MkdirsResponse(result=True),
            None,
        ),
        (
            lambda n: n.rename("/a", "/b"),
            "rename2",
            Rename2Request(src="/a", dst="/b", overwrite_dest=False),
            Rename2Response(),
            None,
        ),
        (
            lambda n: n.delete("/a", recursive=True),
            "delete",
            DeleteRequest(src="/a", recursive=True),
            DeleteResponse(result=False),
            False,
        ),
        (
            lambda n: n.file_info("/a"),
            "getLocatedFileInfo",
            GetLocatedFileInfoRequest(src="/a", need_block_token=True),
            GetFileInfoResponse(fs=status(length=3)),
            status(length=3),
        ),
        (
            lambda n: n.file_info("/a"),
            "getLocatedFileInfo",
            GetLocatedFileInfoRequest(src="/a", need_block_token=True),
            GetFileInfoResponse(),
            None,
        ),
    ],
)
async def test_simple_calls(
    ask: Callable[[NameNode], object], method: str, request_message: object, response: object, expected: object
) -> None:
    async with namenode_answering(answering(response)) as (namenode, server):
        assert await ask(namenode) == expected  # type: ignore[misc]
        (call,) = server.calls
        assert call.method == method
        assert call.request(type(request_message)) == request_message  # type: ignore[type-var]


async def test_locations_are_those_of_the_whole_file() -> None:
    blocks = LocatedBlocks(
        file_length=10,
        blocks=[located(1, 2)],
        under_construction=True,
        last_block=located(2, 1),
        is_last_block_complete=False,
    )
    async with namenode_answering(answering(GetBlockLocationsResponse(locations=blocks))) as (namenode, server):
        found = await namenode.locations("/a")
        assert (found.length_bytes, found.is_open, found.is_last_complete) == (10, True, False)
        assert found.blocks[0].nodes == (node(1), node(2))
        assert found.last is not None
        assert found.last.nodes == (node(2), node(1))
        assert server.calls[0].request(GetBlockLocationsRequest) == GetBlockLocationsRequest(
            src="/a", offset=0, length=(1 << 63) - 1
        )


async def test_a_file_that_is_not_there_has_no_locations() -> None:
    async with namenode_answering(answering(GetBlockLocationsResponse())) as (namenode, _):
        with pytest.raises(FileMissing, match=r"^/a: no such file"):
            await namenode.locations("/a")


# --- listings


async def test_a_listing_is_read_page_by_page_and_knows_what_is_open() -> None:
    names = [f"{number:03}" for number in range(25)]

    def page(call: ReceivedCall) -> None:
        request = call.request(GetListingRequest)
        assert request.need_location
        left = [name for name in names if name.encode() > request.start_after]
        entries = [status(name, is_being_written=name == "011", file_id=int(name)) for name in left[:10]]
        entries[0].CopyFrom(status(left[0], is_being_written=None))
        call.answer(
            GetListingResponse(
                dir_list=DirectoryListing(partial_listing=entries, remaining_entries=max(0, len(left) - 10))
            )
        )

    async with namenode_answering(page) as (namenode, server):
        entries = await namenode.listing("/r")
        assert [entry.path.decode() for entry in entries] == names
        assert [entry.path.decode() for entry in entries if is_open(entry)] == ["011"]
        assert len(server.calls) == 3
        assert len({call.identity for call in server.calls}) == 3


async def test_a_directory_that_is_not_there_or_vanishes_between_two_pages() -> None:
    def page(call: ReceivedCall) -> None:
        listing = DirectoryListing(partial_listing=[status("a")], remaining_entries=1)
        call.answer(GetListingResponse(dir_list=listing) if len(server.calls) == 2 else GetListingResponse())

    async with namenode_answering(page) as (namenode, server):
        for _ in range(2):
            with pytest.raises(FileMissing, match=r"^/r: no such directory"):
                await namenode.listing("/r")
        assert len(server.calls) == 3


async def test_an_empty_directory() -> None:
    response = GetListingResponse(dir_list=DirectoryListing(remaining_entries=0))
    async with namenode_answering(answering(response)) as (namenode, _):
        assert await namenode.listing("/r") == []


async def test_a_listing_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bmq.hdfs.namenode.LISTING_ENTRIES_MAX", 20)
    entries = [status(f"{number}") for number in range(5)]
    response = GetListingResponse(dir_list=DirectoryListing(partial_listing=entries, remaining_entries=5))
    async with namenode_answering(answering(response)) as (namenode, server):
        with pytest.raises(StoreError, match=r"^/r: a directory of more than 20 entries"):
            await namenode.listing("/r")
        assert len(server.calls) == 5


async def test_a_directory_not_made_for_no_reason_is_an_error() -> None:
    async with namenode_answering(answering(MkdirsResponse(result=False))) as (namenode, _):
        with pytest.raises(StoreError, match=r"^/r: the NameNode did not make the directory and gave no reason"):
            await namenode.make_directory("/r", with_parents=True)


def test_addresses_of_a_node() -> None:
    assert (node(1).transfer, node(1).ipc) == (Address("10.0.0.1", 9001), Address("10.0.0.1", 9201))


async def test_a_delegation_token_and_its_renewal() -> None:
    async with namenode_answering(answering(GetDelegationTokenResponse(token=TOKEN))) as (namenode, server):
        assert await namenode.delegation_token(renewer="bmq@R") == DelegationToken(b"i", b"p")
        assert server.calls[0].request(GetDelegationTokenRequest) == GetDelegationTokenRequest(renewer="bmq@R")
    async with namenode_answering(answering(RenewDelegationTokenResponse(new_expiry_time=7))) as (namenode, server):
        assert await namenode.renew_delegation_token(DelegationToken(b"i", b"p")) == 7
        (call,) = server.calls
        named = Token(identifier=b"i", password=b"p", kind=KIND, service="")
        assert call.method == "renewDelegationToken"
        assert call.request(RenewDelegationTokenRequest) == RenewDelegationTokenRequest(token=named)


async def test_a_namenode_without_tokens() -> None:
    async with namenode_answering(answering(GetDelegationTokenResponse())) as (namenode, _):
        with pytest.raises(StoreError, match="gives no delegation token"):
            await namenode.delegation_token()
