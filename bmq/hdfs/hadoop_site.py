"""Reads Hadoop's configuration: core-site.xml and hdfs-site.xml of the directory that HADOOP_CONF_DIR names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from bmq.hdfs.security import BadSecurity

VARIABLE: Final = "HADOOP_CONF_DIR"
FILE_BYTES_MAX: Final = 4 * 1024 * 1024
EXPANSIONS_MAX: Final = 20  # of variables in one value, as Hadoop's own
_FILES: Final = ("core-site.xml", "hdfs-site.xml")
_REFERENCE: Final = re.compile(r"\$\{([^}$\s]+)\}")


def hadoop_properties(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties of both files; empty without HADOOP_CONF_DIR. A missing file has no properties.

    Raises BadSecurity: the directory is missing, or a file is no configuration.
    """
    named = environment.get(VARIABLE, "")
    if not named:
        return {}
    directory = Path(named)
    if not directory.is_dir():
        raise BadSecurity(f"{VARIABLE} names {named}, which is no directory")
    found: dict[str, str] = {}
    for name in _FILES:
        found |= _read(directory / name)
    return {name: _expanded(value, found, environment) for name, value in found.items()}


def _read(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            text = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadSecurity(f"{path} cannot be read: {error.strerror}") from error
    if len(text) > FILE_BYTES_MAX:
        raise BadSecurity(f"{path} has more than {FILE_BYTES_MAX} bytes, which no configuration has")
    if b"<!ENTITY" in text:
        raise BadSecurity(f"{path} defines entities of XML, which bmq does not read: write their values out")
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise BadSecurity(f"{path} is no XML: {error}") from error
    if root.tag != "configuration":
        raise BadSecurity(f"{path} is no configuration of Hadoop: its root is <{root.tag}>")
    properties = ((one.findtext("name"), one.findtext("value")) for one in root.iter("property"))
    return {name.strip(): (value or "").strip() for name, value in properties if name}


def _expanded(value: str, properties: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The value with ${property} and ${env.VARIABLE} replaced; unknown ones stay."""

    def put_in(reference: re.Match[str]) -> str:
        name = reference[1]
        known = environment.get(name[4:]) if name.startswith("env.") else properties.get(name)
        return reference[0] if known is None else known

    for _ in range(EXPANSIONS_MAX):
        expanded = _REFERENCE.sub(put_in, value)
        if expanded == value or len(expanded) > FILE_BYTES_MAX:
            break
        value = expanded
    return value
