"""A kerberized HDFS keeps the promises of the port, in each protection mode: the contract of every store."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from random import Random

import pytest
from structlog.testing import capture_logs

from bmq.hdfs.config import HdfsConfig, WriteMode
from bmq.hdfs.errors import PermissionRefused
from bmq.hdfs.server_logins import login_principal
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability, StoreError
from testing.hdfs import fresh_root
from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs
from tests.support.secure_modes import MODES
from tests.unit.log_store.contract import Pair, StoreContract

pytestmark = pytest.mark.safety
# The gate runs the plainest mode and the one with most to it, the campaign the others.
in_gate = pytest.mark.contract
in_campaign = pytest.mark.campaign("hdfs-secure")


async def _pair(config: HdfsConfig) -> AsyncIterator[Pair]:
    owner = await HdfsStore.open(config, Random(1))
    successor = await HdfsStore.open(config, Random(2))
    try:
        yield Pair(owner, successor)
    finally:
        await owner.close()
        await successor.close()


@pytest.fixture(scope="class")
def secure(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    """For the tests of one class, in its mode."""
    directory = tmp_path_factory.mktemp("secure-hdfs")
    with secure_hdfs(directory, request.cls.protection, datanodes=2, is_ha=request.cls.is_ha) as cluster:
        yield cluster


class SecureStoreContract(StoreContract):
    """`protection`: of the cluster. `is_ha`: it has two NameNodes."""

    protection = MODES["authentication"].protection
    is_ha = False
    write_mode = WriteMode.FANOUT

    @pytest.fixture
    async def pair(self, secure: SecureHdfs, request: pytest.FixtureRequest) -> AsyncIterator[Pair]:
        config = replace(secure.config(fresh_root(request.node.name)), write_mode=self.write_mode)
        async for pair in _pair(config):
            yield pair

    async def test_a_takeover_needs_no_lease_recovery(self, pair: Pair) -> None:
        """A DataNode that refuses the takeover's connections would only make it slow."""
        owner, successor = pair.owner, pair.successor
        writer = await owner.create_segment("log", holder="h", durability=Durability.HSYNC, segment_bytes=1 << 20)
        assert await writer.append([b"x" * 5000]) == 5000
        with capture_logs() as logs:
            assert await successor.take_over("log", previous_holder="h", durability=Durability.HSYNC) == 5000
        assert [line["event"] for line in logs] == []
        writer.abandon()

    async def test_a_delegation_token_stands_for_kerberos(self, pair: Pair) -> None:
        """Executors have no keytab and no ticket: they read and write by a token that the driver got."""
        owner = pair.owner
        assert isinstance(owner, HdfsStore) and owner.config.security is not None
        token = await owner.namenode.delegation_token()
        security = replace(owner.config.security, principal="", keytab="/nowhere", delegation=token)
        executor = await HdfsStore.open(replace(owner.config, security=security, connector=None), Random(3))
        try:
            await executor.write_file("by-token", b"x" * 100_000, holder="executor")
            assert bytes(await executor.read_file("by-token", length_bytes_max=1 << 20)) == b"x" * 100_000
            assert bytes(await owner.read_file("by-token", length_bytes_max=1 << 20)) == b"x" * 100_000
            with pytest.raises(StoreError, match="Delegation Token can be issued only with kerberos"):
                await executor.namenode.delegation_token()
        finally:
            await executor.close()

    async def test_a_delegation_token_is_renewed_by_who_got_it(self, pair: Pair) -> None:
        owner = pair.owner
        assert isinstance(owner, HdfsStore) and owner.config.security is not None
        principal = await login_principal(owner.config)
        assert principal == owner.config.security.principal
        token = await owner.namenode.delegation_token(renewer=principal)
        assert await owner.namenode.renew_delegation_token(token) / 1000 > time.time() + 3600
        with pytest.raises(PermissionRefused, match="renew"):
            await owner.namenode.renew_delegation_token(await owner.namenode.delegation_token())
        security = replace(owner.config.security, principal="", keytab="/nowhere", delegation=token)
        executor = await HdfsStore.open(replace(owner.config, security=security, connector=None), Random(3))
        try:
            with pytest.raises(StoreError, match="Delegation Token can be renewed only with kerberos"):
                await executor.namenode.renew_delegation_token(token)
        finally:
            await executor.close()


@in_gate
class TestAuthenticated(SecureStoreContract):
    """Logins, and no protection afterwards."""


@in_campaign
class TestPipelined(SecureStoreContract):
    """One connection to a chain of DataNodes, which log in to each other."""

    write_mode = WriteMode.PIPELINE


@in_campaign
class TestSigned(SecureStoreContract):
    """Each message to NameNodes and each byte to DataNodes is signed."""

    protection = MODES["integrity"].protection


@in_gate
class TestPrivate(SecureStoreContract):
    """Encrypted, the data by AES-CTR."""

    protection = MODES["privacy"].protection


@in_campaign
class TestPrivateWithoutAes(SecureStoreContract):
    """Encrypted, the data by the cipher of DIGEST-MD5."""

    protection = Protection(rpc="privacy", data="privacy")


@in_campaign
class TestEncrypted(SecureStoreContract):
    """dfs.encrypt.data.transfer: by a key of the cluster's."""

    protection = MODES["encrypted"].protection


@in_campaign
class TestTwoNameNodes(SecureStoreContract):
    """One of them is a standby."""

    is_ha = True

    async def test_a_failover_needs_a_login_at_the_other(self, secure: SecureHdfs) -> None:
        config = secure.config(fresh_root("failover"))
        store = await HdfsStore.open(config, Random(1))
        try:
            await store.write_file("before", b"1", holder="h")
            active = await secure.cluster.active_index()
            assert active is not None
            await secure.cluster.transition_to_active(1 - active)
            await store.write_file("after", b"2", holder="h")
            assert await store.read_file("before", length_bytes_max=10) == b"1"
            assert await store.read_file("after", length_bytes_max=10) == b"2"
        finally:
            await store.close()
