"""The NameNode client against real NameNodes: what they say, what they remember, and how they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.hdfs.authentication import SASL_NEGOTIATION, Negotiation, sasl_demanded
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.datanode_rpc import DataNodeRpc
from bmq.hdfs.errors import (
    AuthenticationRequired,
    DirectoryNotEmpty,
    LeaseLost,
    NoDataNodes,
    NotADirectory,
    PermissionRefused,
    QuotaExceeded,
    ReplicaMissing,
    SafeMode,
)
from bmq.hdfs.failover import CLIENT_PROTOCOL
from bmq.hdfs.namenode import NameNode, is_open
from bmq.hdfs.proto.rpc_pb2 import RpcSasl, UserInformation
from bmq.hdfs.rpc import RpcConnection
from bmq.log.store import AlreadyExists, FileMissing, StorageUnavailable, StoreError
from testing.hdfs import config_of, fresh_root, new_cluster, running, until
from tests.support.hdfs_admin import HdfsAdmin
from tests.support.lossy_proxy import LossyProxy

pytestmark = [pytest.mark.contract, pytest.mark.timeout(240)]

BLOCK_BYTES = 1 << 20
# How long a call goes on that is to succeed once the NameNode is well again.
PATIENT_S = 60.0
# The same over the NameNode's end and new start.
START_MAX_S = 180.0
Calling = Callable[[NameNode], Awaitable[object]]


@asynccontextmanager
async def client(config: HdfsConfig) -> AsyncIterator[NameNode]:
    namenode = NameNode(config, Random())
    try:
        yield namenode
    finally:
        await namenode.close()


async def create_within(namenode: NameNode, path: str, retry_max_s: float) -> int:
    return await namenode.create(path, holder="h", block_bytes=BLOCK_BYTES, replication=1, retry_max_s=retry_max_s)


async def create(namenode: NameNode, path: str, *, holder: str = "h", replication: int = 1) -> int:
    return await namenode.create(path, holder=holder, block_bytes=BLOCK_BYTES, replication=replication)


# --- names, leases and blocks


async def test_a_file_from_its_creation_to_its_end(hdfs_config: HdfsConfig) -> None:
    root = hdfs_config.root
    async with client(hdfs_config) as namenode:
        assert await namenode.file_info(root) is None
        with pytest.raises(FileMissing, match="Parent directory doesn't exist"):
            await namenode.make_directory(f"{root}/a/b", with_parents=False)
        await namenode.make_directory(f"{root}/5.open", with_parents=True)
        await namenode.make_directory(f"{root}/5.open", with_parents=False)
        with pytest.raises(FileMissing, match="Parent directory doesn't exist"):
            await create(namenode, f"{root}/nowhere/a")

        path = f"{root}/5.open/a"
        file_id = await create(namenode, path, replication=3)
        for holder in ("h", "another"):
            with pytest.raises(AlreadyExists, match="AlreadyBeingCreatedException"):
                await create(namenode, path, holder=holder)
        located = await namenode.add_block(path, holder="h", file_id=file_id)
        again = await namenode.add_block(path, holder="h", file_id=file_id, exclude=located.nodes[:1])
        assert (again.block, set(again.nodes)) == (located.block, set(located.nodes))
        await namenode.renew_lease("h")
        found = await namenode.locations(path)
        assert (found.is_open, found.is_last_complete) == (True, False)
        assert found.last is not None
        assert found.last.block == located.block

        # The directory is sealed: the file is found by its id, and nothing can be made beside it.
        await namenode.rename(f"{root}/5.open", f"{root}/5")
        await namenode.fsync(path, holder="h", file_id=file_id, length_bytes=0)
        with pytest.raises(FileMissing):
            await create(namenode, f"{root}/5.open/b")
        bumped = await namenode.bump(located.block, holder="h")
        assert bumped.block.generation_stamp > located.block.generation_stamp
        with pytest.raises(LeaseLost):
            await namenode.bump(located.block, holder="another")
        with pytest.raises(LeaseLost):
            await namenode.complete(path, holder="another", file_id=file_id, last=located.block)
        assert not await namenode.complete(path, holder="h", file_id=file_id, last=located.block)

        # Nobody ever connected the block: only the lease's recovery closes the file.
        assert not await namenode.recover_lease(f"{root}/5/a", holder="another")
        async with asyncio.timeout(60):
            is_closed = False
            while not is_closed:
                await asyncio.sleep(0.02)
                is_closed = await namenode.is_file_closed(f"{root}/5/a")
        status = await namenode.file_info(f"{root}/5/a")
        assert status is not None
        assert (is_open(status), status.length, status.file_id) == (False, 0, file_id)
        with pytest.raises(LeaseLost):
            await namenode.add_block(path, holder="h", file_id=file_id)
        with pytest.raises(AlreadyExists, match="FileAlreadyExistsException"):
            await create(namenode, f"{root}/5/a")
        with pytest.raises(DirectoryNotEmpty, match=f"^{root}/5: the directory has entries"):
            await namenode.delete(f"{root}/5", recursive=False)
        assert await namenode.delete(f"{root}/5", recursive=True)
        assert not await namenode.delete(f"{root}/5", recursive=True)


async def test_what_is_not_there_is_missing(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as namenode:
        await namenode.make_directory(hdfs_config.root, with_parents=True)
        missing = f"{hdfs_config.root}/missing"
        calls: list[Calling] = [
            lambda n: n.listing(missing),
            lambda n: n.locations(missing),
            lambda n: n.is_file_closed(missing),
            lambda n: n.recover_lease(missing, holder="h"),
            lambda n: n.rename(missing, f"{missing}2"),
            lambda n: n.add_block(missing, holder="h", file_id=1),
            lambda n: n.locations(hdfs_config.root),  # a directory
        ]
        for call in calls:
            with pytest.raises(FileMissing):
                await call(namenode)
        assert await namenode.file_info(missing) is None


async def test_a_rename_neither_overwrites_nor_moves_into_a_directory(hdfs_config: HdfsConfig) -> None:
    root = hdfs_config.root
    async with client(hdfs_config) as namenode:
        for name in ("5.open", "5"):
            await namenode.make_directory(f"{root}/{name}", with_parents=True)
        with pytest.raises(AlreadyExists):
            await namenode.rename(f"{root}/5.open", f"{root}/5")
        assert [entry.path for entry in await namenode.listing(root)] == [b"5", b"5.open"]
        assert await namenode.listing(f"{root}/5") == []


async def test_a_file_where_a_directory_should_be(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as namenode:
        await namenode.make_directory(hdfs_config.root, with_parents=True)
        file = f"{hdfs_config.root}/file"
        file_id = await create(namenode, file)
        assert await namenode.complete(file, holder="h", file_id=file_id, last=None)
        calls: list[Calling] = [
            lambda n: n.make_directory(file, with_parents=True),
            lambda n: n.make_directory(f"{file}/a", with_parents=True),
            lambda n: n.make_directory(f"{file}/a", with_parents=False),
            lambda n: create(n, f"{file}/a"),
        ]
        for call in calls:
            with pytest.raises(NotADirectory, match="a file stands where a directory should be"):
                await call(namenode)


async def test_a_long_listing_knows_what_is_open(hdfs_config: HdfsConfig) -> None:
    """Locations come along, so a page holds fewer entries; open files with and without a block are seen."""
    root = hdfs_config.root
    count = 1100
    async with client(hdfs_config) as namenode:
        await namenode.make_directory(f"{root}/0-directory", with_parents=True)
        file_ids = await asyncio.gather(*(create(namenode, f"{root}/{number:05}") for number in range(count)))
        closed = [number for number in range(count) if number % 3]
        results = await asyncio.gather(
            *(
                namenode.complete(f"{root}/{number:05}", holder="h", file_id=file_ids[number], last=None)
                for number in closed
            )
        )
        assert all(results)
        with_block = range(0, 30, 3)
        for number in with_block:
            await namenode.add_block(f"{root}/{number:05}", holder="h", file_id=file_ids[number])
        entries = await namenode.listing(root)
        assert [entry.path.decode() for entry in entries] == [
            *sorted([*(f"{number:05}" for number in range(count)), "0-directory"])
        ]
        files = [entry for entry in entries if entry.path != b"0-directory"]
        assert [is_open(entry) for entry in files] == [not number % 3 for number in range(count)]
        assert [entry.file_id for entry in files] == file_ids
        # The same is known of a single file.
        for number in (0, 1, 3):
            status = await namenode.file_info(f"{root}/{number:05}")
            assert status is not None
            assert is_open(status) is not bool(number % 3)


async def test_a_datanode_that_has_no_replica_says_so(hdfs_config: HdfsConfig) -> None:
    rpc = DataNodeRpc(hdfs_config)
    async with client(hdfs_config) as namenode:
        await namenode.make_directory(hdfs_config.root, with_parents=True)
        path = f"{hdfs_config.root}/a"
        located = await namenode.add_block(path, holder="h", file_id=await create(namenode, path))
        with pytest.raises(ReplicaMissing, match=rf"^block {located.block.block_id} on 127.0.0.1:\d+: "):
            await rpc.visible_length(located.nodes[0], located.block)
    rpc.close()


async def test_without_a_datanode_to_take_it_there_is_no_block(hdfs_config: HdfsConfig) -> None:
    async with client(hdfs_config) as namenode:
        await namenode.make_directory(hdfs_config.root, with_parents=True)
        first, second = f"{hdfs_config.root}/a", f"{hdfs_config.root}/b"
        file_id = await create(namenode, first, replication=3)
        every = (await namenode.add_block(first, holder="h", file_id=file_id)).nodes
        assert len(every) == 3
        file_id = await create(namenode, second, replication=3)
        with pytest.raises(NoDataNodes, match=f"^{second}: no DataNode takes a new block; .*3 node.s. are excluded"):
            await namenode.add_block(second, holder="h", file_id=file_id, exclude=every)
        assert len((await namenode.add_block(second, holder="h", file_id=file_id, exclude=every[:2])).nodes) == 1


# --- lost answers


async def lose_answer(proxy: LossyProxy, call: Awaitable[object]) -> object:
    connections = proxy.connection_count
    proxy.lose_next_answer()
    result = await call
    assert proxy.lost.is_set()
    assert proxy.connection_count == connections + 1
    return result


async def test_a_lost_answer_is_given_again(hdfs_config: HdfsConfig) -> None:
    """create, rename2 and delete would fail or lie if they were carried out twice."""
    root = hdfs_config.root
    async with (
        LossyProxy(hdfs_config.namenodes[0]) as proxy,
        client(replace(hdfs_config, namenodes=(proxy.address,))) as namenode,
    ):
        await namenode.make_directory(root, with_parents=True)
        file_id = await lose_answer(proxy, create(namenode, f"{root}/a", replication=3))
        assert isinstance(file_id, int)
        status = await namenode.file_info(f"{root}/a")
        assert status is not None
        assert status.file_id == file_id
        await lose_answer(proxy, namenode.make_directory(f"{root}/d", with_parents=False))
        located = await lose_answer(proxy, namenode.add_block(f"{root}/a", holder="h", file_id=file_id))
        locations = await namenode.locations(f"{root}/a")
        assert locations.last is not None
        assert (len(locations.blocks), located.block) == (1, locations.last.block)  # type: ignore[attr-defined]
        await lose_answer(proxy, namenode.rename(f"{root}/a", f"{root}/b"))
        empty_id = await create(namenode, f"{root}/c")
        assert await lose_answer(proxy, namenode.complete(f"{root}/c", holder="h", file_id=empty_id, last=None))
        assert await lose_answer(proxy, namenode.delete(f"{root}/b", recursive=False)) is True
        assert [entry.path for entry in await namenode.listing(root)] == [b"c", b"d"]


# --- a NameNode that refuses, one cluster for all of them


@pytest.fixture(scope="module")
def strict_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsCluster]:
    """Permissions are checked, and its NameNode may be hurt as long as it is well again afterwards."""
    directory: Path = tmp_path_factory.mktemp("strict")
    with running(new_cluster(directory, datanodes=1, dfs__permissions__enabled="true")) as cluster:
        yield cluster


@pytest.fixture
async def strict_config(strict_hdfs: HdfsCluster, request: pytest.FixtureRequest) -> HdfsConfig:
    """With a root directory that belongs to the user of the configuration."""
    config = config_of(strict_hdfs, fresh_root(request.node.name), user="ann")
    async with HdfsAdmin.at(strict_hdfs.namenodes[0]) as admin:
        await admin.make_directory(config.root)
        await admin.give(config.root, user="ann")
    return config


@pytest.mark.hurt
async def test_permissions(strict_config: HdfsConfig) -> None:
    root = strict_config.root
    async with client(strict_config) as owner, client(replace(strict_config, user="eve")) as stranger:
        await create(owner, f"{root}/a")
        status = await stranger.file_info(f"{root}/a")
        assert status is not None
        assert (status.owner, status.permission.perm) == ("ann", 0o644)
        calls: list[Calling] = [
            lambda n: create(n, f"{root}/b"),
            lambda n: n.make_directory(f"{root}/d", with_parents=False),
            lambda n: n.delete(f"{root}/a", recursive=False),
            lambda n: n.rename(f"{root}/a", f"{root}/b"),
            lambda n: n.recover_lease(f"{root}/a", holder="h"),
        ]
        for call in calls:
            with pytest.raises(
                PermissionRefused, match=r"HDFS refuses it to this user; .*Permission denied: user=eve, access=WRITE"
            ):
                await call(stranger)


@pytest.mark.hurt
async def test_quotas(strict_hdfs: HdfsCluster, strict_config: HdfsConfig) -> None:
    root = strict_config.root
    async with client(strict_config) as namenode, HdfsAdmin.at(strict_hdfs.namenodes[0]) as admin:
        await admin.set_quota(root, names=2)
        file_id = await create(namenode, f"{root}/a")
        for call in (create(namenode, f"{root}/b"), namenode.make_directory(f"{root}/d", with_parents=False)):
            with pytest.raises(QuotaExceeded, match=r"an HDFS quota is used up; .*The NameSpace quota .* is exceeded"):
                await call
        await admin.set_quota(root, names=10, space_bytes=BLOCK_BYTES // 2)
        with pytest.raises(QuotaExceeded, match=r"an HDFS quota is used up; .*The DiskSpace quota .* is exceeded"):
            await namenode.add_block(f"{root}/a", holder="h", file_id=file_id)
        await admin.set_quota(root, space_bytes=1 << 40)
        await create(namenode, f"{root}/b")

        # The only DataNode may have to be heard of again first: other tests restart its NameNode.
        async def is_added() -> bool:
            with suppress(NoDataNodes):
                await namenode.add_block(f"{root}/a", holder="h", file_id=file_id)
                return True
            return False

        await until(is_added, 30, "the file has a block")


@pytest.mark.hurt
async def test_safe_mode(strict_hdfs: HdfsCluster, strict_config: HdfsConfig) -> None:
    root = strict_config.root
    async with client(strict_config) as namenode, HdfsAdmin.at(strict_hdfs.namenodes[0]) as admin:
        await admin.enter_safe_mode()
        assert await namenode.listing(root) == []  # reading goes on
        sentence = rf"^{root}/a: the NameNode is in safe mode .*Cannot create file{root}/a. Name node is in safe mode"
        with pytest.raises(SafeMode, match=sentence):
            await create_within(namenode, f"{root}/a", 5.0)
        patient = asyncio.create_task(create_within(namenode, f"{root}/a", PATIENT_S))
        assert await namenode.file_info(f"{root}/a") is None
        await admin.leave_safe_mode()
        assert await patient > 0


@pytest.mark.hurt
async def test_a_file_larger_than_the_disk_has_no_block(strict_config: HdfsConfig) -> None:
    async with client(strict_config) as namenode:
        path = f"{strict_config.root}/a"
        file_id = await namenode.create(path, holder="h", block_bytes=1 << 47, replication=1)
        with pytest.raises(NoDataNodes, match=r"could only be written to 0 of the 1 minReplication nodes"):
            await namenode.add_block(path, holder="h", file_id=file_id)


@pytest.mark.hurt
async def test_settings_a_namenode_cannot_accept_are_errors_with_its_words(strict_config: HdfsConfig) -> None:
    async with client(strict_config) as namenode:
        path = f"{strict_config.root}/a"
        with pytest.raises(StoreError, match=r"less than configured minimum value dfs.namenode.fs-limits.min-block"):
            await namenode.create(path, holder="h", block_bytes=1000, replication=1)
        with pytest.raises(StoreError, match="Requested replication factor of 1000 exceeds maximum"):
            await namenode.create(path, holder="h", block_bytes=BLOCK_BYTES, replication=1000)


# --- a NameNode that hangs, dies or starts


@pytest.mark.hurt
async def test_a_hung_namenode_costs_each_call_its_own_time(
    strict_hdfs: HdfsCluster, strict_config: HdfsConfig
) -> None:
    root = strict_config.root
    async with client(replace(strict_config, rpc_timeout_s=1.0)) as namenode:
        await namenode.make_directory(root, with_parents=False)
        await strict_hdfs.namenode(0).pause()
        try:
            # Its threads stop one by one: some calls may be answered yet.
            with pytest.raises(StorageUnavailable, match=rf"{strict_hdfs.namenodes[0]}: getLocatedFileInfo unanswered"):
                for _ in range(1000):
                    await namenode.file_info(root, retry_max_s=0.3)
            patient = asyncio.create_task(create_within(namenode, f"{root}/a", PATIENT_S))
            with pytest.raises(StorageUnavailable):
                await namenode.file_info(root, retry_max_s=0.3)
            assert not patient.done()
            # Long enough for the patient one to try more than once, on more than one connection.
            with pytest.raises(StorageUnavailable):
                await namenode.file_info(root, retry_max_s=2.5)
        finally:
            await strict_hdfs.namenode(0).resume()
        file_id = await patient
        status = await namenode.file_info(f"{root}/a")
        assert status is not None
        assert status.file_id == file_id


@pytest.mark.hurt
@pytest.mark.timeout(2 * START_MAX_S)
@pytest.mark.parametrize("is_checkpointed", [False, True])
async def test_an_answer_lost_in_a_crash_is_remembered_by_the_edit_log_but_not_by_a_checkpoint(
    strict_hdfs: HdfsCluster, strict_config: HdfsConfig, is_checkpointed: bool
) -> None:
    root = strict_config.root
    daemon = strict_hdfs.namenode(0)
    async with LossyProxy(strict_hdfs.namenodes[0]) as proxy:
        config = replace(strict_config, namenodes=(proxy.address,), rpc_timeout_s=START_MAX_S, retry_max_s=START_MAX_S)
        async with client(config) as namenode:
            await create(namenode, f"{root}/old")
            proxy.hold_next_connection()
            proxy.lose_next_answer()
            creating = asyncio.create_task(create(namenode, f"{root}/a"))
            await proxy.lost.wait()
            if is_checkpointed:
                async with HdfsAdmin.at(strict_hdfs.namenodes[0]) as admin:
                    await admin.checkpoint()
            await daemon.kill()
            await daemon.start()
            await strict_hdfs.wait_live(1)
            proxy.release()
            if is_checkpointed:
                with pytest.raises(AlreadyExists, match="because h is already the current lease holder"):
                    await creating
            else:
                file_id = await creating
                status = await namenode.file_info(f"{root}/a")
                assert status is not None
                assert status.file_id == file_id


@pytest.mark.hurt
@pytest.mark.timeout(2 * START_MAX_S)
async def test_calls_wait_for_a_namenode_that_starts(strict_hdfs: HdfsCluster, strict_config: HdfsConfig) -> None:
    daemon = strict_hdfs.namenode(0)
    async with client(replace(strict_config, retry_max_s=START_MAX_S)) as namenode:
        await create(namenode, f"{strict_config.root}/a")
        await daemon.kill()
        with pytest.raises(StorageUnavailable, match=rf"{strict_hdfs.namenodes[0]}: Connect"):
            await namenode.file_info(strict_config.root, retry_max_s=5.0)
        waiting = [asyncio.create_task(create(namenode, f"{strict_config.root}/b{number}")) for number in range(20)]
        await daemon.start()
        assert len(set(await asyncio.gather(*waiting))) == 20
        await strict_hdfs.wait_live(1)


# --- ports of something else, and negotiation


async def test_other_ports_of_hadoop_are_recognized(hdfs: HdfsCluster, hdfs_config: HdfsConfig) -> None:
    """The first two may be a NameNode's next moment: they are told when the call's time is over."""
    datanode = hdfs.plan.datanodes[0]
    web, transfer = hdfs.plan.namenodes[0].http, datanode.transfer
    unknown = r"Unknown protocol: org.apache.hadoop.hdfs.protocol.ClientProtocol"

    async def is_told(port: Address, error: type[Exception], what: str) -> None:
        async with client(replace(hdfs_config, namenodes=(port,))) as namenode:
            with pytest.raises(error, match=what):
                await namenode.file_info("/", retry_max_s=6.0)

    await asyncio.gather(
        is_told(web, StorageUnavailable, f"{web} sent HTTP: this is a web port"),
        is_told(transfer, StorageUnavailable, f"{transfer}: "),
        is_told(datanode.ipc, StoreError, unknown),
    )


class OfferingSasl:
    """Says it would negotiate, and lets itself be refused."""

    first_byte = SASL_NEGOTIATION
    user_information = UserInformation(effective_user="ann")

    async def negotiate(self, negotiation: Negotiation) -> None:
        raise sasl_demanded("the NameNode", await negotiation.exchange(RpcSasl(state=RpcSasl.NEGOTIATE)))


async def test_a_real_namenode_negotiates(hdfs: HdfsCluster) -> None:
    # Without Kerberos it offers SIMPLE beside the tokens of its own; a client that says SIMPLE at once spares the question.
    with pytest.raises(AuthenticationRequired, match=r"\(the server sent NEGOTIATE: TOKEN, SIMPLE\)"):
        await RpcConnection.open(
            hdfs.namenodes[0], CLIENT_PROTOCOL, OfferingSasl(), client_id=bytes(16), timeout_s=10.0
        )


# --- two NameNodes


@pytest.mark.hurt
async def test_the_active_namenode_is_found_wherever_it_is(own_ha_hdfs: HdfsCluster) -> None:
    config = config_of(own_ha_hdfs, "/ha")
    backwards = replace(config, namenodes=tuple(reversed(config.namenodes)), retry_max_s=60.0)
    async with client(backwards) as namenode:
        await namenode.make_directory("/ha", with_parents=True)
        await own_ha_hdfs.transition_to_active(1)
        first_id = await create(namenode, "/ha/a")

        # Killed with a call under way whose answer was lost: the other one knows what it did.
        async with LossyProxy(own_ha_hdfs.namenodes[1]) as proxy:
            through = replace(config, namenodes=(proxy.address, own_ha_hdfs.namenodes[0]), retry_max_s=60.0)
            async with client(through) as other:
                assert await other.file_info("/ha/a") is not None
                proxy.hold_next_connection()
                proxy.lose_next_answer()
                creating = asyncio.create_task(create(other, "/ha/b"))
                await proxy.lost.wait()
                await own_ha_hdfs.namenode(1).kill()
                await own_ha_hdfs.transition_to_active(0)
                proxy.release()
                second_id = await creating
        for path, file_id in (("/ha/a", first_id), ("/ha/b", second_id)):
            status = await namenode.file_info(path)
            assert status is not None
            assert status.file_id == file_id

        await own_ha_hdfs.namenode(0).kill()
        with pytest.raises(StorageUnavailable) as caught:
            await namenode.file_info("/ha", retry_max_s=5.0)
        for address in config.namenodes:
            assert f"{address}: Connect" in str(caught.value)


@pytest.mark.campaign("hdfs-faults")
async def test_a_standby_alone_is_named(own_ha_hdfs: HdfsCluster) -> None:
    config = config_of(own_ha_hdfs, "/ha", retry_max_s=PATIENT_S)
    async with client(config) as namenode:
        await namenode.make_directory("/ha", with_parents=True)
        await own_ha_hdfs.namenode(0).pause()
        try:
            with pytest.raises(StorageUnavailable) as caught:
                await create_within(namenode, "/ha/a", 10.0)
        finally:
            await own_ha_hdfs.namenode(0).resume()
        assert f"{config.namenodes[0]}: create unanswered for" in str(caught.value)
        assert f"{config.namenodes[1]}: StandbyException: Operation category WRITE is not" in str(caught.value)
        assert await create(namenode, "/ha/b") > 0
