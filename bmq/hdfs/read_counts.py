"""Counters of the read path."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class ReadCounts:
    """`reads`, `bytes`: answered ones. `hedges`: second DataNodes asked because the first took long; `hedges_won`: where
    one of those answered first. `failovers`: another replica asked because one failed or fell silent. `refreshes`: block
    locations asked for again. `stale_connections`: kept connections that the DataNode had closed meanwhile.
    `local_reads`: those of `reads` that came from a DataNode's files on this machine.
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
