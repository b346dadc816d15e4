"""The location of a cluster on HDFS. Pure.

hdfs://namenode:8020/bmq                        one NameNode
hdfs://namenode-1:8020,namenode-2:8020/bmq      all NameNodes of an HA cluster
hdfs://NAMESERVICE/bmq                          the NameNodes that hdfs-site.xml in HADOOP_CONF_DIR names
hdfs:///bmq                                     the default file system of core-site.xml there
"""

from __future__ import annotations

import dataclasses
import getpass
import os
import posixpath
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from bmq.hdfs.config import NAMENODE_PORT, Address, HdfsConfig, HdfsSettings
from bmq.hdfs.nameservices import BadNameservice, default_authority, namenodes_of, replication_of
from bmq.hdfs.security import HadoopSecurity
from bmq.log.store import StoreError

SCHEME: Final = "hdfs:"
NO_PROPERTIES: Final[Mapping[str, str]] = MappingProxyType({})
_FORM: Final = "hdfs://NAMENODE:PORT[,NAMENODE:PORT]/DIRECTORY, or hdfs://NAMESERVICE/DIRECTORY with HADOOP_CONF_DIR"


def is_hdfs(store: str) -> bool:
    """Whether a store's URL names a directory on HDFS, as far as its scheme says."""
    return store.startswith(SCHEME)


class BadLocation(StoreError):
    """A store URL that names no place on HDFS."""


def located(
    url: str, settings: HdfsSettings, *, system_user: str, hadoop: Mapping[str, str] = NO_PROPERTIES
) -> HdfsConfig:
    """The settings with the location that `url` names. The default port is 8020. `hadoop`: properties of its configuration.

    Raises BadLocation, BadSecurity, each with one sentence.
    """
    authority, slash, path = url.removeprefix(f"{SCHEME}//").partition("/")
    if not url.startswith(f"{SCHEME}//") or not slash or (not authority and not hadoop):
        raise BadLocation(f"store {url!r}: an HDFS store is written {_FORM}")
    root = "/" + posixpath.normpath(path.strip("/")).removeprefix(".")
    if root == "/":
        raise BadLocation(f"store {url!r}: name a directory of its own, not the root of the file system")
    if any(part in ("..", ".") for part in path.split("/")) or any(character in path for character in ":?#"):
        raise BadLocation(f"store {url!r}: {root} is no plain directory name")
    values = {field.name: getattr(settings, field.name) for field in dataclasses.fields(HdfsSettings)}
    values["user"] = settings.user or system_user
    try:
        authority = authority or default_authority(hadoop)
        namenodes = namenodes_of(authority, hadoop) or tuple(_address(part, url) for part in authority.split(","))
        if settings.replication is None:
            values["replication"] = replication_of(hadoop)
    except BadNameservice as error:
        raise BadLocation(f"store {url!r}: {error}") from None
    if len(set(namenodes)) != len(namenodes):
        raise BadLocation(f"store {url!r} names the same NameNode twice")
    security = HadoopSecurity.of(hadoop, principal=settings.principal, keytab=settings.keytab)
    return HdfsConfig(namenodes=namenodes, root=root, security=security, **values)


def system_user() -> str:
    """The HDFS user when the settings name none."""
    return os.environ.get("HADOOP_USER_NAME") or getpass.getuser()


def _address(text: str, url: str) -> Address:
    if text.startswith("["):  # an IPv6 address
        host, bracket, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
        is_well_formed = bool(bracket) and (not rest or rest.startswith(":"))
    else:
        host, _, port = text.partition(":")
        is_well_formed = not text.endswith(":")
    if not host or not is_well_formed or (port and not port.isascii()) or (port and not port.isdigit()):
        raise BadLocation(f"store {url!r}: {text!r} is not HOST:PORT")
    number = int(port) if port else NAMENODE_PORT
    if not 0 < number < 65536:
        raise BadLocation(f"store {url!r}: {number} is no port")
    return Address(host, number)
