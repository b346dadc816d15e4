"""One server process: event loop, signals, limits, REST, and the line that says it is ready."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol, TypeVar

import structlog
import uvloop
from prometheus_client import REGISTRY, CollectorRegistry

from bmq.admin.logged_errors import LoggedErrors
from bmq.hdfs.location import is_hdfs
from bmq.local_store.root import raise_open_files_limit
from bmq.log.store import SegmentStore
from bmq.protocol.errors import BmqError
from bmq.proxy.log_levels import LogLevels
from bmq.server.build_info import BuildInfo
from bmq.server.client_access import rest_access
from bmq.server.compaction_process import CompactionProcess
from bmq.server.guarded_rest import GuardedRest
from bmq.server.live_summary import live_summary
from bmq.server.logs import configure_logs
from bmq.server.own_logs import OwnLogs, own_logs
from bmq.server.rest_sources import rest_pages, rest_sources
from bmq.server.scheduling import run_in_batches
from bmq.server.setting_checks import misspelt_variables
from bmq.server.settings import Settings, require_usable_addresses, split_address
from bmq.server.standalone import StandaloneServer
from bmq.server.stores import failing_with, open_store, register_metrics
from bmq.server.tracing import check_tracing, start_tracing

T = TypeVar("T")

log = structlog.get_logger("bmq.cli")

_ASKED_AGAIN_S: Final = 0.5  # a second signal within this time is the same one, sent to the process and to its group
_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3


class AddressInUse(BmqError):
    """A port to listen on is in use, or the address is not this machine's."""


class Replaced(BmqError):
    """A newer server has taken over this one's partitions."""


_elapsed_s: Final[Callable[[], float]] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic
)


class SystemClock:
    """The machine's clocks. `elapsed_s` includes time asleep where there is a CLOCK_BOOTTIME (Linux)."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_s(self) -> float:
        return _elapsed_s()


def _reuse_memory() -> None:
    """Have glibc keep freed memory. Megabytes of frames and chunks come and go, and new pages cost more than kept ones.
    `trim_memory` gives it back.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 * 1024 * 1024)
        libc.mallopt(_M_TRIM_THRESHOLD, 64 * 1024 * 1024)


def trim_memory() -> None:
    """Give freed memory of glibc's heap back to the system, which takes milliseconds. Does nothing without glibc."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def prepare_process(settings: Settings, logs: OwnLogs | None = None) -> LogLevels:
    """Set up logs, limits, memory and scheduling, as for all our servers; call before the process has threads.

    `logs`: is told what is logged.
    """
    if logs is None:
        levels = configure_logs(settings.log_level, settings.log_format)
    else:
        levels = configure_logs(settings.log_level, settings.log_format, logs.errors.note, logs.recent.keep)
    for variable, setting in misspelt_variables(os.environ, Settings.model_fields):
        log.warning("environment_variable_unknown", variable=variable, is_meant=setting)
    if settings.scheduling == "batch" or (settings.scheduling == "auto" and is_hdfs(settings.store)):
        run_in_batches()
    # Each open segment and each connection needs a descriptor, so raise the limit to the maximum.
    raise_open_files_limit()
    _reuse_memory()
    return levels


def run_standalone(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT. Raises BmqError with one sentence when it cannot start, or cannot go on."""
    require_usable_addresses(settings, is_node=False)
    check_tracing(settings)
    logs = own_logs(settings, SystemClock().now_ms)
    uvloop.run(_serve(settings, prepare_process(settings, logs), logs))


async def _serve(settings: Settings, levels: LogLevels, logs: OwnLogs) -> None:
    stop = asyncio.ensure_future(stop_on_signals().wait())
    access = rest_access(settings, lambda: server.image)
    is_ready = False
    rest = GuardedRest(settings, lambda: server.image, lambda: is_ready, SystemClock())
    rest_host, rest_port = bind_rest(rest, settings.rest)
    rng = random.Random(os.urandom(16))
    store = await unless_stopped(open_store(settings, rng), stop)
    if store is None:
        return
    tracing = start_tracing(settings, rng)
    server = StandaloneServer(
        settings,
        store,
        SystemClock(),
        rng,
        cleaning=CompactionProcess(settings),
        log_levels=levels,
        trim_memory=trim_memory,
        traces=None if tracing is None else tracing.traces,
    )
    pages = rest_pages(
        rest_sources(server, settings, access, store, SystemClock(), rest.scheme, logs, lambda: is_ready)
    )
    try:
        await rest.start(pages)
        address = await unless_stopped(_start(server, settings), stop)
        if address is None:
            return
        register_all(server, store, logs.errors)
        if tracing is not None:
            tracing.register_metrics(REGISTRY)
        is_ready = True
        gc.freeze()
        sys.stdout.write(f"bmq ready kafka={address[0]}:{address[1]} rest={rest_host}:{rest_port}\n")
        sys.stdout.flush()
        log.info("server_ready", kafka=f"{address[0]}:{address[1]}", rest=f"{rest_host}:{rest_port}")
        with live_summary(server):
            async with failing_with(store, server.failed):
                ends: set[asyncio.Future[Any]] = {stop, server.replaced, server.failed}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        is_ready = False
        log.info("server_stopping")
    finally:
        stop.cancel()
        await _stop_server(server, settings)
        await rest.stop()
        await pages.close()
        await store.close()
        if tracing is not None:
            await tracing.close()
    log.info("server_stopped")
    if server.replaced.done():
        raise Replaced("another server has taken this one's partitions over; only one may serve a data directory")
    if server.failed.done():
        server.failed.result()


class Measured(Protocol):
    """A server with metrics."""

    def register_metrics(self, registry: CollectorRegistry) -> None: ...


def register_all(server: Measured, store: SegmentStore, errors: LoggedErrors) -> None:
    """Export all metrics of the process on /metrics."""
    server.register_metrics(REGISTRY)
    register_metrics(store, REGISTRY)
    REGISTRY.register(errors)
    REGISTRY.register(BuildInfo())


async def unless_stopped(starting: Coroutine[Any, Any, T], stop: asyncio.Future[Any]) -> T | None:
    """The result of `starting`; None when a stop signal came first (an unreachable store may delay it for long)."""
    task = asyncio.ensure_future(starting)
    await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
    if not task.done():
        task.cancel()
        await asyncio.wait({task})
        return None
    return task.result()


async def _start(server: StandaloneServer, settings: Settings) -> tuple[str, int]:
    try:
        return await server.start()
    except OSError as error:
        raise AddressInUse(bind_sentence(settings.listen, error)) from error


async def _stop_server(server: StandaloneServer, settings: Settings) -> None:
    try:
        await asyncio.wait_for(server.stop(), settings.stop_timeout_ms / 1000)
    except TimeoutError:
        # Everything acknowledged is durable already; the next start recovers unsealed partitions.
        log.warning("stop_timed_out", stop_timeout_ms=settings.stop_timeout_ms)


def bind_rest(rest: GuardedRest, address: str) -> tuple[str, int]:
    try:
        return rest.bind(*split_address(address))
    except OSError as error:
        raise AddressInUse(bind_sentence(address, error)) from error


def bind_sentence(address: str, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"cannot listen on {address}: the port is in use by another process; choose another or stop that one"
    return f"cannot listen on {address}: {error.strerror or error}"


def stop_on_signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    asked_s = loop.time()

    def ask() -> None:
        nonlocal asked_s
        if not stop.is_set():
            asked_s = loop.time()
            stop.set()
        elif loop.time() - asked_s > _ASKED_AGAIN_S:
            os._exit(130)  # a second signal: stop at once

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ask)
    return stop
