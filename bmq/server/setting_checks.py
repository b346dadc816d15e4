"""Finds settings that cannot be right, even if each may look right by itself. Pure.

A server refuses them at its start. Later they would show as a hang, a busy loop, or an address that no client can reach.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from itertools import combinations
from typing import Any, Final

_ZERO_IS_FINE: Final = frozenset(
    {
        "proxy.in_flight_reserved_bytes",
        "fetch.catch_up_behind_bytes",
        "fetch.catch_up_slowdown_max",  # no limit
        "fetch.fetch_rack_again_ms",
        "fetch.fetch_rack_redirects_max",
        "fetch.fetch_session_eviction_ms",
        "fetch.fetch_session_partitions_max",
        "fetch.fetch_session_slots_max",  # no sessions, as in Kafka
        "fetch.fetch_start_wait_ms",
        "fetch.fetch_wait_ms_max",
        "fetch.fetch_waiting_max",
        "fetch.read_ahead_bytes_max",
        "fetch.read_ahead_chunks_max",
        "fetch.read_cache_bytes_max",
        "fetch.read_cursors_max",
        "router.drain_wait_ms",
        "router.move_wait_ms",
        "router.tail_cache_bytes_max",
        "router.tail_grace_ms",
        "broker.compaction_marker_retention_ms",
        "broker.idle_start_delay_s",
        "broker.idle_starts_max",  # only retention starts them
        "broker.index_cache_bytes_max",
        "broker.stop_wait_max_s",
        "broker.storage_wait_max_s",
        "broker.tail_cache_bytes_max",
        "cluster.failovers_at_first",
        "cluster.idle_failover_delay_ms",
        "cluster.release_wait_max_ms",
        "cluster.report_interval_min_ms",
        "cluster.shutdown_wait_max_ms",
        "cluster.store_silence_max_ms",
        "cluster.takeover_delay_ms",
        "hdfs.bad_node_expiry_s",
        "hdfs.hedge_least_s",
        "hdfs.idle_connection_s",
        "hdfs.retry_max_s",
        "scale.first_node_id",
        "scale.last_node_id",
        "telemetry.otlp_retry_max_s",
    }
)
"""No wait, no cache, none of them. Every other number of a table is above 0."""

_IN_ORDER: Final = (
    ("router.backoff_min_ms", "router.backoff_max_ms"),
    ("broker.backoff_first_s", "broker.backoff_max_s"),
    ("cluster.retry_min_ms", "cluster.retry_max_ms"),
    ("cluster.report_interval_min_ms", "cluster.report_interval_ms"),
    ("cluster.heartbeat_interval_ms", "cluster.heartbeat_timeout_ms"),
    ("hdfs.retry_first_s", "hdfs.retry_longest_s"),
)
"""The first one of each is at most the second one."""

_OTHER_VARIABLES: Final = frozenset(
    {
        "BMQ_BOOTSTRAP",
        "BMQ_CONFIG",
        "BMQ_PROFILE",
        "BMQ_PROFILES",
        "BMQ_REST_CA_FILE",
        "BMQ_REST_CERTIFICATE_FILE",
        "BMQ_REST_CONFIG",
        "BMQ_REST_PASSWORD_FILE",
        "BMQ_REST_TOKEN_FILE",
        "BMQ_REST_URL",
        "BMQ_REST_USER",
    }
)
"""Variables that name the settings' file, and those of commands."""
_LIKENESS_MIN: Final = 0.75
"""difflib's ratio of two names that differ in one letter of five, or lack it."""

_PORT_MAX: Final = 65_535


def wrong_value(values: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first setting that cannot be right, and why; None if there is none. `values`: all settings, by dotted name."""
    for name, value in values.items():
        if "." not in name or isinstance(value, bool) or not isinstance(value, int | float):
            continue  # those at the top have their bounds in bmq/server/settings.py
        if not math.isfinite(value):
            return name, "it is no number"
        if value < 0 or (value == 0 and name not in _ZERO_IS_FINE):
            return name, "it must be 0 or greater" if name in _ZERO_IS_FINE else "it must be greater than 0"
    for low, high in _IN_ORDER:
        if values[low] > values[high]:
            return low, f"it must be at most {high}, which is {values[high]}"
    return None


def misspelt_variables(variables: Iterable[str], settings: Iterable[str]) -> list[tuple[str, str]]:
    """Environment variables that name no setting, each with the most similar one: (BMQ_LISTEM, BMQ_LISTEN).

    Variables that resemble no setting are ignored: Kubernetes sets BMQ_SERVICE_HOST, BMQ_PORT and others for a service named
    bmq.
    """
    known = {name.upper(): None for name in settings}
    found = []
    for variable in sorted(variables):
        prefix, _, rest = variable.upper().partition("_")
        name, delimiter, below = rest.partition("__")
        if prefix == "BMQ" and name not in known and variable.upper() not in _OTHER_VARIABLES:
            near = get_close_matches(name, known, 1, _LIKENESS_MIN)
            found += [(variable, f"BMQ_{one}{delimiter}{below}") for one in near]
    return found


def wrong_advertised(address: str) -> str | None:
    """Why other machines cannot reach the address HOST:PORT; None if they may."""
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isascii() or not port.isdigit():
        return "it is not HOST:PORT"
    if not 0 < int(port) <= _PORT_MAX:
        return f"its port must be between 1 and {_PORT_MAX}"
    if is_any_address(address):
        return "others cannot connect to an address that means all of this machine's"
    return None


def is_any_address(address: str) -> bool:
    """Whether the host of HOST:PORT stands for all addresses of this machine, as 0.0.0.0 and :: do."""
    host = address.rpartition(":")[0].removeprefix("[").removesuffix("]")
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address; False for a name, which may be anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def not_advertised(listener: str, address: str, advertised: str, setting: str) -> str | None:
    """One sentence if a server listens on all addresses and does not say which one others have to use; else None."""
    if advertised or not is_any_address(address):
        return None
    return (
        f"setting {listener} = {address!r}: {address.rpartition(':')[0]} means all addresses of this machine, to which "
        f"others cannot connect; set {setting} to the HOST:PORT that others are to use"
    )


def ports_in_conflict(listeners: Mapping[str, str], process_count: int = 1) -> str | None:
    """One sentence if two listeners want the same port; else None. Listeners are given as HOST:PORT by setting name.

    `process_count`: number of workers; each uses the ports that follow those of the one before. Port 0 is any free port.
    """
    ports = {name: int(address.rpartition(":")[2]) for name, address in listeners.items()}
    for (one, first), (other, second) in combinations(ports.items(), 2):
        if not first or not second or abs(first - second) >= process_count:
            continue
        hosts = {listeners[name].rpartition(":")[0] for name in (one, other)}
        if len(hosts) == 1 or any(is_any_address(listeners[name]) for name in (one, other)):
            if process_count == 1:
                return f"settings {one} and {other} are the same address: {listeners[one]}"
            return (
                f"settings {one} = {listeners[one]!r} and {other} = {listeners[other]!r} are too close: each of "
                f"{process_count} workers has the next port, so leave {process_count} free behind each"
            )
    return None
