"""How a certificate says that its owner is a node of the cluster. Pure.

A node's certificate has a URI `urn:bmq:node:NAME` among its alternative names. A certificate of the same authority without
it is a client's: it may log in where clients do, and never speaks for other clients.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Final

NODE_URI: Final = "urn:bmq:node:"
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LABEL: Final = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_HOST_CHARS_MAX: Final = 253


def node_of(certificate: Mapping[str, object] | None) -> str | None:
    """The node's name in what ssl calls a peer certificate; None: it is of no node, or there is none."""
    names = (certificate or {}).get("subjectAltName", ())
    if not isinstance(names, tuple):
        return None
    for kind, value in names:
        if kind == "URI" and value.startswith(NODE_URI) and is_node_name(value.removeprefix(NODE_URI)):
            return str(value.removeprefix(NODE_URI))
    return None


def is_node_name(name: str) -> bool:
    """Letters, digits, dots, underscores and hyphens, at most 64."""
    return _NODE.fullmatch(name) is not None


def is_ip_address(host: str) -> bool:
    """Whether it goes into a certificate as an address, not as a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def is_host(host: str) -> bool:
    """Whether a certificate may be issued for it: an address, or a name, whose first label may be `*`."""
    if is_ip_address(host):
        return True
    labels = host.removeprefix("*.").split(".")
    return (
        len(host) <= _HOST_CHARS_MAX
        and all(_LABEL.fullmatch(label) is not None for label in labels)
        and not labels[-1].isdecimal()
    )
