"""Who reads a store on HDFS, and which stores there are none of."""

from __future__ import annotations

import asyncio
import getpass
import time
from pathlib import Path
from random import Random

import pytest

from bmq.hdfs.delegation_token import DelegationToken
from bmq.hdfs.store import HdfsStore
from bmq.spark.source.driver_tokens import DriverToken, TokenDirectory
from bmq.spark.source.storage import StoreUnreadable, open_store, token_for_executors
from tests.unit.hdfs.test_delegation_token import FIRST, in_writable

pytestmark = pytest.mark.unit


def reader(option: str = "") -> str:
    """The user of a store opened now; nothing is connected."""

    async def opened() -> str:
        store = open_store("hdfs://namenode:8020/bmq", Random(), hdfs_user=option)
        assert isinstance(store, HdfsStore)
        try:
            return store.config.user
        finally:
            await store.close()

    return asyncio.run(opened())


def test_who_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    monkeypatch.delenv("SPARK_USER", raising=False)
    assert reader() == getpass.getuser()
    monkeypatch.setenv("SPARK_USER", "submitter")
    assert reader() == "submitter"
    monkeypatch.setenv("HADOOP_USER_NAME", "named")
    assert reader() == "named"
    assert reader("by-option") == "by-option"


CORE_SITE = """<configuration>
  <property><name>hadoop.security.authentication</name><value>kerberos</value></property>
  <property><name>dfs.namenode.kerberos.principal</name><value>nn/_HOST@REALM</value></property>
</configuration>"""
SECURE = "hdfs://namenode:8020/bmq"


def login(token: DelegationToken | None = None) -> DelegationToken | None:
    """What a store that is opened now logs in by; nothing is connected."""

    async def opened() -> DelegationToken | None:
        store = open_store(SECURE, Random(), token=token)
        assert isinstance(store, HdfsStore) and store.config.security is not None
        try:
            return store.config.security.delegation
        finally:
            await store.close()

    return asyncio.run(opened())


def test_executors_log_in_by_the_drivers_token_or_by_that_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "core-site.xml").write_text(CORE_SITE)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    file = tmp_path / "container_tokens"
    file.write_bytes(in_writable(FIRST))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
    of_job, of_driver = DelegationToken(b"first", b"p1"), DelegationToken(b"newer", b"p")
    assert login(of_driver) == of_driver
    assert login() == of_job
    assert asyncio.run(token_for_executors(SECURE, Random())) == of_job
    file.write_bytes(in_writable(FIRST)[:20])
    with pytest.raises(StoreUnreadable, match="container_tokens, which is cut off"):
        login()
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(tmp_path / "gone"))
    with pytest.raises(StoreUnreadable, match="gone, which cannot be read: No such file"):
        login()


def test_plans_of_one_driver_share_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The keytab that Spark was given counts more than the job's first token, and no NameNode is asked for another."""
    (tmp_path / "core-site.xml").write_text(CORE_SITE)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    file = tmp_path / "container_tokens"
    file.write_bytes(in_writable(FIRST))
    monkeypatch.setenv("HADOOP_TOKEN_FILE_LOCATION", str(file))
    monkeypatch.setenv("BMQ_HDFS__PRINCIPAL", "bmq@REALM")
    monkeypatch.setenv("BMQ_HDFS__KEYTAB", "/keytab")
    monkeypatch.setenv("BMQ_SPARK_TOKENS", str(tmp_path))
    now_s = time.time()
    shared = DelegationToken(b"shared", b"p")
    TokenDirectory(tmp_path).put(
        DriverToken(
            root=SECURE,
            principal="bmq@REALM",
            keytab="/keytab",
            token=shared,
            made_s=now_s,
            ends_s=now_s + 86_400,
            interval_s=86_400,
        )
    )
    assert asyncio.run(token_for_executors(SECURE, Random())) == shared
    assert login() is None, "the driver itself logs in by the keytab"
    assert login(shared) == shared


def test_an_open_store_needs_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    for root in (SECURE, f"file:{tmp_path}"):
        assert asyncio.run(token_for_executors(root, Random())) is None


@pytest.mark.parametrize("root", ["relative/directory", "s3://bucket/bmq", "hdfs://namenode:8020"])
def test_what_names_no_store_is_refused(root: str) -> None:
    with pytest.raises(StoreUnreadable, match=r"bmq\.root"):
        open_store(root, Random())


def test_a_directory_of_another_machine_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match="is not on this machine"):
        open_store(f"file:{tmp_path}/elsewhere", Random())
