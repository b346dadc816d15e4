"""The HDFS store's counters for Prometheus."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.hdfs.bad_nodes import BadNodes
from bmq.hdfs.read_counts import ReadCounts
from bmq.hdfs.writer import HdfsWriter

_READ_COUNTERS: Final = (
    ("bmq_hdfs_reads", "reads", "Ranged reads answered."),
    ("bmq_hdfs_local_reads", "local_reads", "Ranges that came from a DataNode's files on this machine."),
    ("bmq_hdfs_read_bytes", "bytes", "Bytes of ranged reads, each verified against the DataNodes' checksums."),
    ("bmq_hdfs_hedged_reads", "hedges", "Reads for which a second DataNode was asked because the first took long."),
    ("bmq_hdfs_hedged_reads_won", "hedges_won", "Hedged reads that the second DataNode answered first."),
    ("bmq_hdfs_read_failovers", "failovers", "Reads that went to another replica because one failed."),
    ("bmq_hdfs_checksum_errors", "checksum_errors", "Replicas whose bytes did not match their checksums."),
    ("bmq_hdfs_location_refreshes", "refreshes", "Block locations asked for again because a read failed."),
    ("bmq_hdfs_read_connections_opened", "connections_opened", "Connections to DataNodes opened for reading."),
)


class HdfsCollector(Collector):
    """Register it with the process's registry. `writers`: files being written."""

    def __init__(self, reads: ReadCounts, bad_nodes: BadNodes, writers: Collection[HdfsWriter]) -> None:
        self._reads = reads
        self._bad_nodes = bad_nodes
        self._writers = writers

    def collect(self) -> Iterator[Metric]:
        for name, attribute, documentation in _READ_COUNTERS:
            yield CounterMetricFamily(name, documentation, value=float(getattr(self._reads, attribute)))
        for name, documentation, value in (
            ("bmq_hdfs_open_blocks", "Blocks being written.", len(self._writers)),
            ("bmq_hdfs_bad_datanodes", "DataNodes left out of new blocks for a while.", len(self._bad_nodes.current())),
        ):
            yield GaugeMetricFamily(name, documentation, value=float(value))
