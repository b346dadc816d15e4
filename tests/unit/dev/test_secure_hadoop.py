"""A kerberized development cluster: its plan over restarts, and what its daemons and clients are told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import typer

from bmq.cli.dev_kerberos import with_kerberos
from bmq.dev.cluster_file import ClusterFile
from bmq.dev.hadoop_configuration import ClusterPlan, KerberosPlan
from bmq.dev.kdc import KdcMissing, found_program
from bmq.dev.secure_hadoop import WireProtection, by_host_name, client_security, daemon_security
from bmq.hdfs.config import Address
from bmq.hdfs.security import HadoopSecurity, Protection
from tests.unit.dev.plans import plan_of

pytestmark = pytest.mark.unit

KERBEROS = KerberosPlan("kdc", Address("127.0.0.1", 88), Protection.PRIVACY, is_encrypted=True)


def test_the_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    written = ClusterFile(replace(plan_of(), kerberos=KERBEROS))
    written.write(tmp_path)
    assert ClusterFile.read(tmp_path, ClusterPlan) == written
    assert [node.name for node in written.plan.nodes][-1] == "kdc"
    assert "kdc" not in [node.name for node in written.plan.hadoop_nodes]


def test_a_plan_of_before_is_one_of_an_open_cluster() -> None:
    assert ClusterPlan.of_json({"namenodes": [], "datanodes": []}).kerberos is None


def test_a_cluster_stays_as_it_was_made(tmp_path: Path) -> None:
    made = with_kerberos(plan_of(), tmp_path, is_wanted=True, was_made=False, protection=Protection.INTEGRITY)
    assert made.kerberos is not None
    assert made.kerberos.protection is Protection.INTEGRITY
    assert with_kerberos(made, tmp_path, is_wanted=False, was_made=True) == made
    changed = with_kerberos(made, tmp_path, is_wanted=False, was_made=True, is_encrypted=True)
    assert changed.kerberos == replace(made.kerberos, is_encrypted=True)
    assert with_kerberos(plan_of(), tmp_path, is_wanted=False, was_made=True) == plan_of()


def test_an_open_cluster_does_not_become_secure(tmp_path: Path) -> None:
    with pytest.raises(typer.BadParameter, match="holds a cluster without Kerberos; name another directory"):
        with_kerberos(plan_of(), tmp_path, is_wanted=True, was_made=True)
    with pytest.raises(typer.BadParameter, match="add --secure"):
        with_kerberos(plan_of(), tmp_path, is_wanted=False, was_made=False, protection=Protection.PRIVACY)


@pytest.mark.parametrize("protection", list(Protection))
def test_daemons_and_clients_are_told_the_same(protection: Protection) -> None:
    wire = WireProtection.of(protection, is_encrypted=False)
    for told in (client_security("R", wire), daemon_security("R", "/k", wire)):
        security = HadoopSecurity.of(told, principal="", keytab="")
        assert security is not None
        assert security.rpc == security.data == (protection,)
        assert security.is_aes is (protection is Protection.PRIVACY)
        assert security.realm == "R"


def test_encrypted_data_goes_by_aes() -> None:
    told = client_security("R", WireProtection.of(Protection.AUTHENTICATION, is_encrypted=True))
    assert told["dfs.encrypt.data.transfer"] == "true"
    assert told["dfs.encrypt.data.transfer.cipher.suites"] == "AES/CTR/NoPadding"


def test_servers_are_named_by_host() -> None:
    told = by_host_name({"fs.defaultFS": "hdfs://127.0.0.1:8020", "x": "1"}, "127.0.0.1")
    assert told == {"fs.defaultFS": "hdfs://localhost:8020", "x": "1"}


def test_a_program_that_is_missing_is_one_sentence() -> None:
    with pytest.raises(KdcMissing, match="there is no no-such-kdc: install MIT's Kerberos server"):
        found_program("no-such-kdc")
