"""The ways in which a kerberized HDFS protects calls and data, on each of which the tests of an open one are run again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.secure_hdfs import Protection, SecureHdfs, secure_hdfs


@dataclass(frozen=True)
class SecureMode:
    """`properties`: Hadoop's, besides. `is_ha`: with two NameNodes."""

    protection: Protection = field(default_factory=Protection)
    is_ha: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)


MODES: Final[Mapping[str, SecureMode]] = {
    "authentication": SecureMode(),
    "integrity": SecureMode(Protection(rpc="integrity", data="integrity")),
    "privacy": SecureMode(Protection(rpc="privacy", data="privacy", is_aes=True)),
    # dfs.encrypt.data.transfer: data by a key of the cluster's.
    "encrypted": SecureMode(Protection(data="", is_encrypted=True, is_aes=True)),
    "two-namenodes": SecureMode(is_ha=True),
    # As distributions set it up: DataNodes' own protocol is for DataNodes alone.
    "authorization": SecureMode(
        Protection(rpc="integrity", data="authentication"), properties={"hadoop.security.authorization": "true"}
    ),
}


@contextmanager
def secure_hdfs_of(mode: str, directory: Path, *, datanodes: int) -> Iterator[SecureHdfs]:
    """A running cluster, which this process logs in to meanwhile."""
    chosen = MODES[mode]
    with secure_hdfs(
        directory, chosen.protection, datanodes=datanodes, is_ha=chosen.is_ha, properties=chosen.properties
    ) as secure:
        yield secure
