"""What Hadoop's configuration says of security, and the sentences for one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.hdfs.config import HdfsSettings
from bmq.hdfs.hadoop_site import FILE_BYTES_MAX, hadoop_properties
from bmq.hdfs.location import located
from bmq.hdfs.security import BadSecurity, HadoopSecurity, Protection, check_service, service_principal

pytestmark = pytest.mark.unit

KERBEROS = {
    "hadoop.security.authentication": "kerberos",
    "dfs.namenode.kerberos.principal": "nn/_HOST@R",
}


def of(principal: str = "", keytab: str = "", **changes: str) -> HadoopSecurity:
    hadoop = {**KERBEROS, **{name.replace("__", "."): value for name, value in changes.items()}}
    security = HadoopSecurity.of(hadoop, principal=principal, keytab=keytab)
    assert security is not None
    return security


def test_a_cluster_without_kerberos_is_open() -> None:
    assert HadoopSecurity.of({}, principal="", keytab="") is None
    assert HadoopSecurity.of({"hadoop.security.authentication": "simple"}, principal="", keytab="") is None
    assert located("hdfs://nn/bmq", HdfsSettings(), system_user="ann").security is None


def test_the_configuration_comes_along_with_the_place() -> None:
    settings = HdfsSettings(principal="bmq@R", keytab="/k")
    security = located("hdfs://nn/bmq", settings, system_user="ann", hadoop=KERBEROS).security
    assert security == HadoopSecurity(principal="bmq@R", keytab="/k", namenode_principal="nn/_HOST@R")


def test_a_secure_cluster_is_never_reached_in_clear_text() -> None:
    config = located("hdfs://nn/bmq", HdfsSettings(), system_user="ann", hadoop=KERBEROS)
    with pytest.raises(BadSecurity, match="would not be secured"):
        _ = config.required_connector
    assert located("hdfs://nn/bmq", HdfsSettings(), system_user="ann").required_connector is None


def test_protections_keep_their_order() -> None:
    security = of(hadoop__rpc__protection="privacy, authentication", dfs__data__transfer__protection="Integrity")
    assert security.rpc == (Protection.PRIVACY, Protection.AUTHENTICATION)
    assert security.data == (Protection.INTEGRITY,)
    assert of().rpc == (Protection.AUTHENTICATION,)
    assert of().data == ()


@pytest.mark.parametrize(
    ("principal", "keytab", "changes", "sentence"),
    [
        ("", "/k", {}, "hdfs.keytab is set: set hdfs.principal"),
        ("a", "", {"hadoop__security__authentication": "simple"}, "Kerberos is not: .* in HADOOP_CONF_DIR"),
        ("", "", {"hadoop__security__authentication": "ldap"}, "is 'ldap': simple or kerberos is needed"),
        ("", "", {"dfs__namenode__kerberos__principal": ""}, "names no dfs.namenode.kerberos.principal"),
        ("", "", {"hadoop__rpc__protection": "auth"}, "hadoop.rpc.protection is 'auth': authentication, integrity"),
        ("", "", {"dfs__data__transfer__protection": "none"}, "dfs.data.transfer.protection is 'none'"),
        (
            "",
            "",
            {"dfs__encrypt__data__transfer__cipher__suites": "SM4/CTR/NoPadding"},
            "knows AES/CTR/NoPadding alone",
        ),
    ],
)
def test_a_configuration_that_cannot_be_used(
    principal: str, keytab: str, changes: dict[str, str], sentence: str
) -> None:
    with pytest.raises(BadSecurity, match=sentence):
        of(principal, keytab, **changes)


def test_the_host_stands_for_itself() -> None:
    assert service_principal("nn/_HOST@R", "Node1.Example.com") == "nn/node1.example.com@R"
    assert service_principal("nn/fixed@R", "node1") == "nn/fixed@R"
    assert service_principal("nn@R", "node1") == "nn@R"


@pytest.mark.parametrize("address", ["10.0.0.1", "::1", "fe80::1"])
def test_an_address_is_no_host_name(address: str) -> None:
    with pytest.raises(BadSecurity, match=f"needs the server's host name: .* instead of the address {address}"):
        service_principal("nn/_HOST@R", address)


def test_a_namenode_has_the_name_that_was_dialled() -> None:
    check_service(of(), "nn/node1", "NODE1")
    check_service(of(dfs__namenode__kerberos__principal="nn/a@R"), "nn/a", "10.0.0.1")
    with pytest.raises(BadSecurity, match=r"at node1 is evil/node1, and .* demands nn/node1"):
        check_service(of(), "evil/node1", "node1")
    with pytest.raises(BadSecurity, match="demands nn/node1"):
        check_service(of(), "nn/node2", "node1")


def test_a_pattern_beats_the_principal() -> None:
    security = of(dfs__namenode__kerberos__principal__pattern="nn/*.example.com@*")
    check_service(security, "nn/a.example.com", "10.0.0.1")
    with pytest.raises(BadSecurity, match=r"dfs\.namenode\.kerberos\.principal\.pattern .* does not allow"):
        check_service(security, "nn/a.example.org", "a.example.org")


def test_the_realm_of_a_pattern_may_be_open() -> None:
    assert of().realm == "R"
    pattern = {"dfs__namenode__kerberos__principal": "", "dfs__namenode__kerberos__principal__pattern": "*@*"}
    assert of(**pattern).realm == ""


class TestHadoopProperties:
    def test_nothing_without_the_variable(self) -> None:
        assert hadoop_properties({}) == {}

    def test_both_files_count(self, tmp_path: Path) -> None:
        self._write(tmp_path, "core-site.xml", a="1", b="core")
        self._write(tmp_path, "hdfs-site.xml", b="hdfs")
        assert hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path)}) == {"a": "1", "b": "hdfs"}

    def test_files_may_be_absent(self, tmp_path: Path) -> None:
        assert hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path)}) == {}

    def test_variables_are_put_in(self, tmp_path: Path) -> None:
        self._write(tmp_path, "core-site.xml", a="${b}/x", b="${env.HOME_OF_B}", loop="${loop}", c="${unknown}")
        found = hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path), "HOME_OF_B": "/b"})
        assert found == {"a": "/b/x", "b": "/b", "loop": "${loop}", "c": "${unknown}"}

    def test_variables_that_grow_end(self, tmp_path: Path) -> None:
        self._write(tmp_path, "core-site.xml", a="${a}${a}" * 50)
        assert len(hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path)})["a"]) <= FILE_BYTES_MAX

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("<configuration>", "is no XML"),
            ("<html/>", "its root is <html>"),
            ('<!DOCTYPE c [<!ENTITY a "b">]><configuration/>', "defines entities"),
            (" " * (FILE_BYTES_MAX + 1), "more than"),
        ],
    )
    def test_a_file_that_is_no_configuration(self, tmp_path: Path, text: str, sentence: str) -> None:
        (tmp_path / "core-site.xml").write_text(text)
        with pytest.raises(BadSecurity, match=sentence):
            hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path)})

    def test_a_directory_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(BadSecurity, match="which is no directory"):
            hadoop_properties({"HADOOP_CONF_DIR": str(tmp_path / "none")})

    @staticmethod
    def _write(directory: Path, file: str, **properties: str) -> None:
        inside = "".join(
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
        )
        (directory / file).write_text(f"<configuration>{inside}</configuration>")
