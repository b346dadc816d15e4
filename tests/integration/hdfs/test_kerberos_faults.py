"""A secure HDFS that cannot be used as it is configured: one sentence that names what to change, never clear text."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from bmq.dev.hdfs import HdfsCluster
from bmq.dev.secure_hadoop import NAMENODE, SERVICES
from bmq.hdfs.config import HdfsConfig
from bmq.hdfs.errors import AuthenticationRequired
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.sasl.transfer_handshake import TransferSecret
from bmq.hdfs.security import BadSecurity, Protection
from bmq.hdfs.store import HdfsStore
from bmq.log.store import Durability, StorageUnavailable, StoreError
from testing.hdfs import USER, config_of, fresh_root
from tests.support.secure_hdfs import Protection as ClusterProtection
from tests.support.secure_hdfs import SecureHdfs, secure_hdfs
from tests.support.wrong_clock import clock_off_by

pytestmark = pytest.mark.campaign("hdfs-faults")

KDC_DELAY_S: Final = 5.0
# A process of its own opens the store of these arguments, and says in one line what came of it.
OPEN: Final = """
import asyncio, os, random, sys
from bmq.hdfs.config import HdfsSettings
from bmq.hdfs.hadoop_site import hadoop_properties
from bmq.hdfs.location import located
from bmq.hdfs.store import HdfsStore
from bmq.log.store import StoreError
url, root, principal, keytab = sys.argv[1:]
settings = HdfsSettings(principal=principal, keytab=keytab, replication=1)
config = located(url + root, settings, system_user="", hadoop=hadoop_properties(os.environ))
async def use():
    store = await HdfsStore.open(config, random.Random(1), retry_max_s=5.0)
    try:
        await store.write_file("file", b"data", holder="h")
        return (await store.read_file("file", length_bytes_max=10)).decode()
    finally:
        await store.close()
try:
    print(asyncio.run(use()))
except StoreError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHdfs]:
    protection = ClusterProtection(rpc="privacy", data="privacy", is_aes=True)
    with secure_hdfs(tmp_path_factory.mktemp("secure-hdfs"), protection) as cluster:
        yield cluster


@asynccontextmanager
async def opened(config: HdfsConfig) -> AsyncIterator[HdfsStore]:
    store = await HdfsStore.open(config, Random(1), retry_max_s=5.0)
    try:
        yield store
    finally:
        await store.close()


async def refused(config: HdfsConfig, sentence: str, *, error: type[StoreError] = AuthenticationRequired) -> None:
    with pytest.raises(error, match=sentence) as caught:
        async with opened(config):
            pass
    assert "\n" not in str(caught.value)


def secured(secure: SecureHdfs, **changes: object) -> HdfsConfig:
    config = secure.config(fresh_root("faults"))
    assert config.security is not None
    return replace(config, security=replace(config.security, **changes))  # type: ignore[arg-type]


async def test_a_client_without_kerberos_is_told(secure: SecureHdfs) -> None:
    config = config_of(secure.cluster, fresh_root("faults"), USER)
    await refused(config, r"demands Kerberos \(SASL\): name the directory of .* in HADOOP_CONF_DIR")


async def test_a_keytab_that_is_not_there(secure: SecureHdfs) -> None:
    await refused(secure.config("/x", keytab="/no/such.keytab"), r"the keytab /no/such\.keytab is not there")


async def test_a_keytab_of_another_principal(secure: SecureHdfs) -> None:
    other = str(secure.kdc.keytab("eve"))
    await refused(secure.config("/x", keytab=other), r"eve\.keytab has no usable key of bmq@")


async def test_a_keytab_that_is_none(secure: SecureHdfs, tmp_path: Path) -> None:
    (tmp_path / "keytab").write_bytes(b"no keytab")
    await refused(secure.config("/x", keytab=str(tmp_path / "keytab")), "is no keytab: have it written by ktadd")


async def test_a_principal_that_the_kdc_does_not_know(secure: SecureHdfs) -> None:
    keytab = secure.kdc.keytab("gone")
    secure.kdc.admin(f"delprinc -force gone@{secure.kdc.realm}")
    config = secure.config("/x", principal=f"gone@{secure.kdc.realm}", keytab=str(keytab))
    await refused(config, "the KDC does not know gone@")


async def test_an_expired_principal(secure: SecureHdfs) -> None:
    keytab = secure.kdc.keytab("old")
    secure.kdc.admin(f"modprinc -expire 2020-01-01 old@{secure.kdc.realm}")
    config = secure.config("/x", principal=f"old@{secure.kdc.realm}", keytab=str(keytab))
    await refused(config, "the principal old@.* has expired")


async def test_a_wrong_realm(secure: SecureHdfs) -> None:
    config = secure.config("/x", principal="bmq@ELSEWHERE")
    await refused(config, r"no usable key of bmq@ELSEWHERE|no KDC is known for the realm")


async def test_old_keys(secure: SecureHdfs) -> None:
    keytab = secure.kdc.keytab("stale")
    secure.kdc.admin(f"cpw -randkey stale@{secure.kdc.realm}")
    config = secure.config("/x", principal=f"stale@{secure.kdc.realm}", keytab=str(keytab))
    await refused(config, r"stale\.keytab holds old keys of stale@")


async def test_an_empty_ticket_cache(secure: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    await refused(secure.config("/x", principal="", keytab=""), "there is no ticket in .*cache: log in by kinit")


async def test_a_ticket_cache_logs_in(secure: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secure.kdc.login("bmq", tmp_path / "cache")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    async with opened(secure.config(fresh_root("cache"), principal="", keytab="")) as store:
        assert await store.list_directory("") == ()


async def test_a_ticket_cache_of_another_user(
    secure: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.kdc.login("eve", tmp_path / "cache")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path / 'cache'}")
    await refused(secure.config("/x", keytab=""), "has no ticket of bmq@|there is no ticket in")


async def test_a_krb5_conf_that_is_not_there(secure: SecureHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5_CONFIG", "/no/such/krb5.conf")
    await refused(secure.config("/x"), r"krb5\.conf")


async def test_principals_of_two_machines_are_one_user(secure: SecureHdfs) -> None:
    """By hadoop.security.auth_to_local, here its default rule: a takeover goes by the short name."""
    root = fresh_root("machines")

    def of(name: str) -> HdfsConfig:
        return secure.config(root, principal=secure.kdc.principal(name), keytab=str(secure.kdc.keytab(name)))

    async with opened(of("bmq/one")) as owner, opened(of("bmq/two")) as successor:
        writer = await owner.create_segment("log", holder="h", durability=Durability.HSYNC, segment_bytes=1 << 20)
        assert await writer.append([b"x" * 5000]) == 5000
        assert await successor.take_over("log", previous_holder="h", durability=Durability.HSYNC) == 5000
        writer.abandon()


@pytest.mark.parametrize("seconds", [600, -600])
@pytest.mark.parametrize("is_synced", [True, False], ids=["the KDC's time counts", "its own clock counts"])
async def test_a_clock_that_is_ten_minutes_off(
    secure: SecureHdfs, tmp_path: Path, seconds: int, is_synced: bool
) -> None:
    """The library goes by the KDC's time, unless it is told not to (kdc_timesync)."""
    text = secure.kdc.krb5_conf.read_text()
    (tmp_path / "krb5.conf").write_text(
        text.replace("[libdefaults]", f"[libdefaults]\n  kdc_timesync = {int(is_synced)}")
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        OPEN,
        *(secure.url, fresh_root("clock"), secure.principal, str(secure.keytab)),
        env={
            **os.environ,
            **secure.environment,
            **clock_off_by(seconds),
            "KRB5_CONFIG": str(tmp_path / "krb5.conf"),
        },
        stdout=PIPE,
    )
    told, _ = await process.communicate()
    if is_synced:
        assert told == b"data\n"
    else:
        assert re.fullmatch(rb"AuthenticationRequired: .*the clock of this machine differs.*\n", told), told


async def test_a_namenode_of_another_name(secure: SecureHdfs) -> None:
    config = secured(secure, namenode_principal=f"hdfs/_HOST@{secure.kdc.realm}")
    await refused(config, "is nn/localhost, and .* demands hdfs/localhost", error=BadSecurity)


async def test_a_namenode_without_kerberos(secure: SecureHdfs, hdfs: HdfsCluster) -> None:
    namenodes = tuple(address._replace(host="localhost") for address in hdfs.namenodes)
    config = replace(secure.config("/x"), namenodes=namenodes)
    await refused(config, r"demands no login, .* bmq does not fall back to clear text")


async def test_an_address_for_a_host_name(secure: SecureHdfs) -> None:
    config = replace(secure.config("/x"), namenodes=secure.cluster.namenodes)
    await refused(config, r"needs the server's host name: .* instead of the address 127\.0\.0\.1", error=BadSecurity)


async def test_a_namenode_with_other_protection(secure: SecureHdfs) -> None:
    config = secured(secure, rpc=(Protection.AUTHENTICATION,))
    await refused(config, "offers privacy, and hadoop.rpc.protection here demands authentication")


@pytest.mark.parametrize("data", [(), (Protection.AUTHENTICATION,)])
async def test_datanodes_with_other_protection(secure: SecureHdfs, data: tuple[Protection, ...]) -> None:
    async with opened(replace(secured(secure, data=data), connect_timeout_s=3.0)) as store:
        with pytest.raises(StoreError, match=r"dfs\.data\.transfer\.protection"):
            await store.write_file("file", b"data", holder="h")


async def test_a_damaged_token(secure: SecureHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    real = TransferSecret.of_token

    def damaged(token: Token) -> TransferSecret:
        return replace(real(token), password="damaged")

    monkeypatch.setattr(TransferSecret, "of_token", damaged)
    async with opened(replace(secure.config(fresh_root("token")), connect_timeout_s=3.0)) as store:
        with pytest.raises(StoreError, match=r"does not accept the login|closed the connection during the login"):
            await store.write_file("file", b"data", holder="h")


async def test_one_of_two_namenodes_is_insecure(secure: SecureHdfs, hdfs: HdfsCluster) -> None:
    """Whichever is reached first: nothing is sent to the one without a login."""
    (open_one,) = (address._replace(host="localhost") for address in hdfs.namenodes)
    config = secure.config(fresh_root("pair"))
    pair = replace(config, namenodes=(open_one, *config.namenodes))
    await refused(pair, r"localhost.* demands no login, .* bmq does not fall back to clear text")


async def test_a_namenode_with_old_keys(secure: SecureHdfs) -> None:
    secure.kdc.admin(f"cpw -randkey {secure.kdc.principal(NAMENODE)}")
    try:
        await refused(
            secure.config("/x"), "does not accept the login, and its log says why: .* a keytab with the present keys"
        )
    finally:
        secure.kdc.keytab(*SERVICES, file="services")
    async with opened(secure.config(fresh_root("new-keys"))):
        pass


async def test_a_slow_kdc(secure: SecureHdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login takes two answers of the KDC: longer than one try of a start, which goes on with it in the next one."""
    async with slowed(secure.kdc.port, KDC_DELAY_S) as port:
        text = secure.kdc.krb5_conf.read_text().replace(f"127.0.0.1:{secure.kdc.port}", f"127.0.0.1:{port}")
        (tmp_path / "krb5.conf").write_text(text)
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        store = HdfsStore(secure.config(fresh_root("slow")), Random(1))
        try:
            for _ in range(2 * round(KDC_DELAY_S)):
                with suppress(StorageUnavailable):
                    await store.make_root(retry_max_s=KDC_DELAY_S / 2)
                    break
            await store.write_file("file", b"data", holder="h")
        finally:
            await store.close()


async def test_a_kdc_that_is_away(secure: SecureHdfs) -> None:
    """Whoever has tickets notices nothing; a start waits for it."""
    async with opened(secure.config(fresh_root("away"))) as store:
        await secure.kdc.daemon.stop()
        try:
            await store.write_file("file", b"data", holder="h")
            assert await store.read_file("file", length_bytes_max=10) == b"data"
            await refused(
                secure.config("/x"), "no KDC answers for the login of bmq@.*: it is down", error=StorageUnavailable
            )
            starting = asyncio.create_task(HdfsStore.open(secure.config(fresh_root("back")), Random(2), retry_max_s=60))
        finally:
            await secure.kdc.daemon.start()
        await (await starting).close()


@asynccontextmanager
async def slowed(port: int, delay_s: float) -> AsyncIterator[int]:
    """The port of a proxy, through which each answer of a local server takes this long."""
    tasks: set[asyncio.Task[None]] = set()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, wait_s: float) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65_536):
                await asyncio.sleep(wait_s)
                writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(copy(reader, far_writer, 0), copy(far_reader, writer, delay_s))
        finally:
            far_writer.transport.abort()
            writer.transport.abort()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(relay(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Recorder:
    """Passes on what goes over all connections of a loop, and keeps it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen = bytearray()
        self.ports: set[int] = set()
        self._loop = asyncio.get_running_loop()
        self._connect = self._loop.create_connection
        self._tasks: list[asyncio.Task[None]] = []
        self._servers: list[asyncio.Server] = []
        monkeypatch.setattr(self._loop, "create_connection", self._through)

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _through(self, factory: Any, host: str, port: int) -> Any:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self._tasks.append(asyncio.ensure_future(self._relay(port, reader, writer)))

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        self.ports.add(port)
        return await self._connect(factory, *server.sockets[0].getsockname())

    async def _relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        far_reader = asyncio.StreamReader()
        transport, protocol = await self._connect(lambda: asyncio.StreamReaderProtocol(far_reader), "127.0.0.1", port)
        far_writer = asyncio.StreamWriter(transport, protocol, far_reader, loop)
        try:
            await asyncio.gather(self._copy(reader, far_writer), self._copy(far_reader, writer))
        finally:
            transport.abort()
            writer.transport.abort()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            self.seen += data
            writer.write(data)
        writer.close()


async def _seen(config: HdfsConfig, cluster: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> set[bytes]:
    """Which of a file's name and data could be read along on the way to the servers."""
    name, data = "the-name-of-a-file", b"a record that nobody else may read"
    recorder = Recorder(monkeypatch)
    async with opened(config) as store:
        await store.write_file(name, data, holder="h")
        assert await store.read_file(name, length_bytes_max=100) == data
    await recorder.close()
    assert recorder.ports & {address.port for address in cluster.datanodes}
    return {secret for secret in (name.encode(), data) if secret in recorder.seen}


async def test_nothing_goes_in_clear_text(secure: SecureHdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    config = secure.config(fresh_root("clear"))
    assert await _seen(config, secure.cluster, monkeypatch) == set()


async def test_on_an_open_cluster_it_could_be_read(hdfs: HdfsCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above would notice."""
    config = config_of(hdfs, fresh_root("clear"), USER, local_reads=False)
    assert len(await _seen(config, hdfs, monkeypatch)) == 2
