"""Limits of the proxy. Where Kafka has the same setting, the name and the default are Kafka's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ProxyConfig:
    """Every queue, buffer and wait of the proxy is bounded by one of these."""

    connections_max: int = 20_000
    connections_max_idle_ms: int = 600_000
    socket_request_max_bytes: int = 100 * 1024 * 1024
    receive_buffer_bytes: int = 256 * 1024  # one for all connections
    frames_per_turn_max: int = 64  # requests of one connection handled before the others get their turn
    connection_requests_max: int = 256  # in flight
    connection_request_bytes_max: int = 16 * 1024 * 1024  # in flight; one longer request is let through alone
    stalled_request_ms: int = 30_000  # a half-sent request may sit on a full budget for so long
    request_bytes_max: int = 192 * 1024 * 1024  # in flight on all connections
    connection_response_bytes_max: int = 1024 * 1024  # unsent; beyond it the connection's requests wait
    fetch_max_bytes: int = 55 * 1024 * 1024  # of one response
    fetch_response_bytes_max: int = 256 * 1024 * 1024  # held by unsent responses; beyond it they carry one batch
    fetch_session_slots_max: int = 1_000
    fetch_session_eviction_ms: int = 120_000
    read_cache_bytes_max: int = 64 * 1024 * 1024
    read_chunk_bytes: int = 1024 * 1024
    read_ahead_chunks_max: int = 2
    read_ahead_bytes_max: int = 16 * 1024 * 1024  # being read ahead at once
    read_cursors_max: int = 10_000
    describe_partitions_max: int = 2_000
    housekeeping_ms: int = 10_000
    log_lines_per_minute_max: int = 60  # about clients that misbehave; the rest is counted
