"""Bytes sent by the bmq nodes and the DataNodes, by their own counters."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

from bench.cluster.sides import BmqSide
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.http_get import http_get
from testing.hdfs import outside_any_loop

SENT: Final = re.compile(r"^bmq_sent_bytes_total (\S+)$", re.MULTILINE)
DATANODE: Final = "/jmx?qry=Hadoop:service=DataNode,name=DataNodeActivity-*"


class NotCounted(Exception):
    """A node or a DataNode does not report what it sent."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """`node_bytes`: answers of all nodes to any client. `datanode_bytes`: block data read by anybody, with HDFS's
    checksums.
    """

    node_bytes: int
    datanode_bytes: int

    def since(self, before: Traffic) -> dict[str, int]:
        return {
            "node_bytes": self.node_bytes - before.node_bytes,
            "datanode_bytes": self.datanode_bytes - before.datanode_bytes,
        }


def traffic(side: BmqSide, hdfs: HdfsCluster) -> Traffic:
    """Bytes since the servers were started. Raises NotCounted."""
    return Traffic(
        sum(_sent_by(str(node.get("/metrics")[1]), f"node {node.node_id}") for node in side.nodes.values()),
        sum(
            _read_of(outside_any_loop(http_get(node.http, DATANODE)), node.name) for node in hdfs.plan.datanodes
        ),
    )  # fmt: skip


def _sent_by(metrics: str, name: str) -> int:
    found = SENT.search(metrics)
    if found is None:
        raise NotCounted(f"{name} does not say how many bytes it sent: {metrics[:200]}")
    return int(float(found[1]))


def _read_of(answer: bytes, name: str) -> int:
    for bean in json.loads(answer)["beans"]:
        if "BytesRead" in bean:
            return int(bean["BytesRead"])
    raise NotCounted(f"{name} does not say how many bytes were read of it: {answer[:200]!r}")
