"""What a driver tells the processes that plan for it: Spark's own keytab, and where tokens are."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bmq.spark.source import driver_login
from bmq.spark.source.driver_directory import LOCK, machine
from bmq.spark.source.driver_login import share_login
from bmq.spark.source.driver_tokens import DIRECTORY_VARIABLE, TokenRenewer

pytestmark = pytest.mark.unit

CORE_SITE = """<configuration>
  <property><name>hadoop.security.authentication</name><value>kerberos</value></property>
</configuration>"""
KEYTAB, PRINCIPAL = "BMQ_HDFS__KEYTAB", "BMQ_HDFS__PRINCIPAL"


class Context:
    def __init__(self, **settings: str) -> None:
        self.environment: dict[str, str] = {}
        self._settings = {f"spark.kerberos.{name}": text for name, text in settings.items()}

    def getConf(self) -> dict[str, str]:  # noqa: N802  # Spark's name
        return self._settings


class Session:
    def __init__(self, **settings: str) -> None:
        self.sparkContext = Context(**settings)


@pytest.fixture(autouse=True)
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The configuration of a kerberized cluster; what is put into the environment ends with the test."""
    (tmp_path / "core-site.xml").write_text(CORE_SITE)
    monkeypatch.setattr(os, "environ", {**os.environ, "HADOOP_CONF_DIR": str(tmp_path)})
    for name in (KEYTAB, PRINCIPAL, DIRECTORY_VARIABLE, "HADOOP_TOKEN_FILE_LOCATION"):
        os.environ.pop(name, None)
    started: list[TokenRenewer] = []
    monkeypatch.setattr(TokenRenewer, "start", lambda renewer: started.append(renewer))
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.mkdtemp", lambda prefix, dir: made(dir / f"{prefix}0"))
    driver_login._directory.cache_clear()
    yield
    assert len(started) <= 1
    driver_login._directory.cache_clear()


def made(path: Path) -> str:
    path.mkdir(mode=0o700)
    return str(path)


def test_planners_get_the_keytab_that_spark_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dead = tmp_path / "bmq-tokens-of-a-dead-driver"
    dead.mkdir()
    (dead / LOCK).write_bytes(machine())
    session = Session(principal="bmq@R", keytab="bmq.keytab-5f3c")  # as YARN brings it to a driver
    share_login(session)
    told = session.sparkContext.environment
    assert told == {
        DIRECTORY_VARIABLE: str(tmp_path / "bmq-tokens-0"),
        PRINCIPAL: "bmq@R",
        KEYTAB: str(tmp_path / "bmq.keytab-5f3c"),
    }
    assert told.items() <= os.environ.items()
    assert stat.S_IMODE((tmp_path / "bmq-tokens-0").stat().st_mode) == 0o700
    assert not (tmp_path / "bmq-tokens-of-a-dead-driver").exists()
    again = Session()
    share_login(again)
    assert again.sparkContext.environment == {DIRECTORY_VARIABLE: str(tmp_path / "bmq-tokens-0")}


@pytest.mark.parametrize("keytab", ["/etc/bmq.keytab", "file:/etc/bmq.keytab", "local:/etc/bmq.keytab"])
def test_a_keytab_by_its_path(keytab: str) -> None:
    session = Session(principal="bmq@R", keytab=keytab)
    share_login(session)
    assert session.sparkContext.environment[KEYTAB] == "/etc/bmq.keytab"


def test_a_keytab_that_was_named_counts(tmp_path: Path) -> None:
    os.environ[KEYTAB] = "/own"
    session = Session(principal="bmq@R", keytab="/spark")
    share_login(session)
    assert session.sparkContext.environment == {DIRECTORY_VARIABLE: str(tmp_path / "bmq-tokens-0")}
    assert os.environ[KEYTAB] == "/own"


def test_without_kerberos_s_package_the_job_s_token_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_login, "find_spec", lambda name: None)
    session = Session(principal="bmq@R", keytab="/spark")
    os.environ["HADOOP_TOKEN_FILE_LOCATION"] = "/container_tokens"
    share_login(session)
    assert session.sparkContext.environment.keys() == {DIRECTORY_VARIABLE}
    del os.environ["HADOOP_TOKEN_FILE_LOCATION"]
    share_login(session)
    assert session.sparkContext.environment[KEYTAB] == "/spark", "who opens the store says which package is missing"


def test_the_configuration_that_planners_are_given_counts(tmp_path: Path) -> None:
    os.environ["HADOOP_CONF_DIR"] = ""
    session = Session()
    share_login(session)
    assert session.sparkContext.environment == {}
    session.sparkContext.environment["HADOOP_CONF_DIR"] = str(tmp_path)
    share_login(session)
    assert DIRECTORY_VARIABLE in session.sparkContext.environment


@pytest.mark.parametrize("content", ["<configuration/>", "no XML", CORE_SITE.replace("kerberos", "simple")])
def test_an_open_cluster_and_a_broken_configuration_change_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "core-site.xml").write_text(content)
    session = Session(principal="bmq@R", keytab="/k")
    share_login(session)
    assert session.sparkContext.environment == {}


def test_a_session_of_spark_connect_has_no_context() -> None:
    class Remote:
        @property
        def sparkContext(self) -> Any:  # noqa: N802  # Spark's name
            raise AttributeError("JVM_ATTRIBUTE_NOT_SUPPORTED")

    share_login(Remote())
    share_login(object())
