"""A NameNode's status and that of its DataNodes, over HTTP (JMX as JSON)."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final

import httpx

from bmq.dataclass import dataclass
from bmq.dev.http_get import http_get
from bmq.hdfs.config import Address

ANSWER_WAIT_S: Final = 2.0


class NoStatus(Exception):
    """The daemon did not answer, or without the requested bean; the message says why."""


@dataclass(frozen=True, slots=True)
class NameNodeStatus:
    """`role`: `active`, `standby` or, while it starts, `initializing`.

    `live`: transfer addresses of the DataNodes that can be written to. The NameNode counts a DataNode as live as soon
    as it has registered, but places blocks on it only after a heartbeat has reported its volumes.
    """

    role: str
    is_in_safe_mode: bool
    live: frozenset[str]


async def namenode_status(http: Address) -> NameNodeStatus:
    """Raises NoStatus."""
    status = await jmx_bean(http, "Hadoop:service=NameNode,name=NameNodeStatus")
    info = await jmx_bean(http, "Hadoop:service=NameNode,name=NameNodeInfo")
    try:
        nodes = json.loads(info["LiveNodes"])
        return NameNodeStatus(
            role=status["State"],
            is_in_safe_mode=bool(info["Safemode"]),
            live=frozenset(node["xferaddr"] for node in nodes.values() if node["capacity"] > 0),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise NoStatus(f"{http} gave an incomplete status: {error!r}") from None


async def jmx_bean(http: Address, name: str) -> dict[str, Any]:
    """The attributes of one bean. Raises NoStatus when there is none of that name, or no answer in time."""
    try:
        async with asyncio.timeout(ANSWER_WAIT_S):
            body = await http_get(http, f"/jmx?qry={name}")
        beans = json.loads(body)["beans"]
    except TimeoutError:
        raise NoStatus(f"{http} did not answer within {ANSWER_WAIT_S:g} s") from None
    except (httpx.HTTPError, KeyError, TypeError, ValueError) as error:
        raise NoStatus(f"no status from {http}: {error}") from None
    if not beans or not isinstance(beans[0], dict):
        raise NoStatus(f"{http} has no {name} yet")
    found: dict[str, Any] = beans[0]
    return found
