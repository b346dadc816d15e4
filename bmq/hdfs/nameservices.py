"""The NameNodes that a Hadoop configuration names: fs.defaultFS, and nameservices with one NameNode or several (HA). Pure.

Source: HdfsClientConfigKeys and DFSUtilClient of Hadoop. `properties` are those of core-site.xml and hdfs-site.xml.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from bmq.hdfs.config import NAMENODE_PORT, REPLICATION_DEFAULT, Address

DEFAULT_FILE_SYSTEM: Final = "fs.defaultFS"
NAMESERVICES: Final = "dfs.nameservices"
HA_NAMENODES: Final = "dfs.ha.namenodes"
RPC_ADDRESS: Final = "dfs.namenode.rpc-address"
REPLICATION: Final = "dfs.replication"
_REPLICATION_MAX: Final = 512  # dfs.replication.max
_FORMER_NAMES: Final = {DEFAULT_FILE_SYSTEM: "fs.default.name"}


class BadNameservice(ValueError):
    """What a configuration says about NameNodes cannot be used, in one clause."""


def default_authority(properties: Mapping[str, str]) -> str:
    """The authority of the default file system: HOST, HOST:PORT or a nameservice. Raises BadNameservice."""
    named = properties.get(DEFAULT_FILE_SYSTEM) or properties.get(_FORMER_NAMES[DEFAULT_FILE_SYSTEM], "")
    if not named:
        raise BadNameservice(f"it names no NameNode, and {DEFAULT_FILE_SYSTEM} is not set in HADOOP_CONF_DIR")
    try:
        parts = urlsplit(named)
    except ValueError:
        parts = None
    if parts is None or parts.scheme != "hdfs" or not parts.netloc:
        raise BadNameservice(f"{DEFAULT_FILE_SYSTEM} is {named!r}: write the NameNodes of an hdfs:// file system out")
    return parts.netloc


def namenodes_of(name: str, properties: Mapping[str, str]) -> tuple[Address, ...] | None:
    """The NameNodes of the nameservice `name`; None if the configuration has no such nameservice. Raises BadNameservice."""
    if name not in _names(properties.get(NAMESERVICES, "")):
        return None
    members = _names(properties.get(f"{HA_NAMENODES}.{name}", ""))
    keys = [f"{RPC_ADDRESS}.{name}.{member}" for member in members] or [f"{RPC_ADDRESS}.{name}"]
    return tuple(_address_at(key, properties) for key in keys)


def nameservices_with(namenodes: Iterable[Address], properties: Mapping[str, str]) -> tuple[str, ...]:
    """The nameservices whose NameNodes are all among `namenodes`. One that cannot be used is left out."""
    ours = set(namenodes)
    found = []
    for name in _names(properties.get(NAMESERVICES, "")):
        try:
            if set(namenodes_of(name, properties) or ()) <= ours:
                found.append(name)
        except BadNameservice:
            continue
    return tuple(found)


def replication_of(properties: Mapping[str, str]) -> int:
    """How many DataNodes Hadoop's clients ask for: dfs.replication, else 3. Raises BadNameservice."""
    text = properties.get(REPLICATION, "")
    if not text:
        return REPLICATION_DEFAULT
    if not (text.isascii() and text.isdigit() and 0 < int(text) <= _REPLICATION_MAX):
        raise BadNameservice(f"{REPLICATION} of hdfs-site.xml is {text!r}: 1 to {_REPLICATION_MAX} is needed")
    return int(text)


def _names(text: str) -> Sequence[str]:
    return [name for part in text.split(",") if (name := part.strip())]


def _address_at(key: str, properties: Mapping[str, str]) -> Address:
    text = properties.get(key, "")
    if not text:
        raise BadNameservice(f"hdfs-site.xml does not set {key}")
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, NAMENODE_PORT if parts.port is None else parts.port
    except ValueError:
        host, port = None, 0
    if not host or not port or parts.netloc != text or "@" in text:
        raise BadNameservice(f"{key} of hdfs-site.xml is {text!r}: HOST:PORT is needed")
    return Address(host, port)
