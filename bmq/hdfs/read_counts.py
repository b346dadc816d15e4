"""Counters of the read path."""

from __future__ import annotations

from bmq.dataclass import dataclass


@dataclass(slots=True)
class ReadCounts:
    """`reads`, `bytes`: answered ones. `hedges`: second DataNodes asked because the first was late. `hedges_won`: hedges
    where the second answered first. `failovers`: other replicas asked because one failed or was silent. `refreshes`: repeated
    requests for block locations. `stale_connections`: kept connections that the DataNode had closed. `local_reads`: those of
    `reads` from a DataNode's files on this machine.
    """

    reads: int = 0
    bytes: int = 0
    hedges: int = 0
    hedges_won: int = 0
    failovers: int = 0
    checksum_errors: int = 0
    refreshes: int = 0
    connections_opened: int = 0
    stale_connections: int = 0
    local_reads: int = 0
