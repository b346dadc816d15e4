"""`bmq dev … --secure` and `--kerberos`: HDFS with Kerberos, and what to type to use it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from random import Random

import typer

from bmq.dev.hadoop_configuration import ClusterPlan, KerberosPlan
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.kdc import NAME
from bmq.dev.ports import HOST, pick_ports
from bmq.dev.secure_hdfs import Realm, SecureHdfsCluster
from bmq.hdfs.security import Protection


def with_kerberos(
    plan: ClusterPlan,
    data: Path,
    *,
    is_wanted: bool,
    was_made: bool,
    protection: Protection | None = None,
    is_encrypted: bool | None = None,
) -> ClusterPlan:
    """The plan with a Kerberos server, if one is wanted or was there before. What is None stays as it was.

    `was_made`: the cluster in `data` exists already, as `plan` says. Raises BadParameter.
    """
    before = plan.kerberos
    if before is None and not is_wanted:
        if protection is not None or is_encrypted:
            raise typer.BadParameter("--protection and --encrypt are for a cluster with Kerberos: add --secure")
        return plan
    if before is None and was_made:
        raise typer.BadParameter(f"{data} holds a cluster without Kerberos; name another directory with --data")
    if before is None:
        taken = [address.port for address in plan.addresses]
        before = KerberosPlan(NAME, plan.addresses[0]._replace(port=pick_ports(HOST, 1, Random(), exclude=taken)[0]))
    return replace(
        plan,
        kerberos=replace(
            before,
            protection=before.protection if protection is None else protection,
            is_encrypted=before.is_encrypted if is_encrypted is None else is_encrypted,
        ),
    )


def realm_of(plan: ClusterPlan, data: Path) -> Realm | None:
    """None for an open cluster. Raises KdcMissing."""
    return None if plan.kerberos is None else Realm(data.resolve(), plan.kerberos)


def secured_cluster(hdfs: HdfsCluster, realm: Realm | None) -> HdfsCluster | SecureHdfsCluster:
    """`hdfs` with its realm, which this process and its children use from now on."""
    if realm is None:
        return hdfs
    cluster = SecureHdfsCluster(realm, hdfs)
    os.environ.update(cluster.environment)
    return cluster


def what_to_export(cluster: SecureHdfsCluster) -> list[str]:
    """Lines for a terminal, by which bmq and Hadoop's tools log in."""
    settings = {f"BMQ_HDFS__{name.upper()}": value for name, value in cluster.client_settings.items()}
    return [f"export {name}={value}" for name, value in {**cluster.environment, **settings}.items()]


def what_to_know(cluster: SecureHdfsCluster) -> list[str]:
    """The principal that may log in to the cluster, its keytab and the protection, one line each."""
    realm = cluster.realm
    told = ", ".join(f"{name}={value}" for name, value in realm.protection.properties.items())
    return [
        f"principal:  {realm.principal}",
        f"keytab:     {realm.keytab}   (kinit -kt {realm.keytab} {realm.principal})",
        f"protection: {told}",
    ]
