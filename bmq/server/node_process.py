"""One cluster node's process: event loop, signals, REST, ZooKeeper, and the line that says it is ready."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import sys
from contextlib import nullcontext
from multiprocessing.connection import Connection
from typing import Any, Final

import structlog
import uvloop
from prometheus_client import REGISTRY

from bmq.election.zookeeper import ZooKeeperElection
from bmq.hdfs.location import is_hdfs
from bmq.internode_server.handlers import load_all
from bmq.metadata.image import ROLE_BROKER, ROLE_COORDINATOR
from bmq.protocol.errors import BmqError
from bmq.proxy.log_levels import LogLevels
from bmq.server.compaction_process import CompactionProcess
from bmq.server.guarded_rest import GuardedRest
from bmq.server.heartbeat import Heartbeat
from bmq.server.internode_tls import InternodeTls
from bmq.server.live_summary import live_summary
from bmq.server.loop_watchdog import LoopWatchdog
from bmq.server.node import NodeServer
from bmq.server.node_dependencies import NodeHooks
from bmq.server.node_rest import NodeRest
from bmq.server.own_logs import OwnLogs, own_logs
from bmq.server.process import (
    AddressInUse,
    SystemClock,
    bind_rest,
    bind_sentence,
    prepare_process,
    register_all,
    stop_on_signals,
    trim_memory,
    unless_stopped,
)
from bmq.server.settings import Settings, require_usable_addresses, split_roles
from bmq.server.stores import failing_with, open_store
from bmq.server.tracing import check_tracing, start_tracing
from bmq.server.workers import run_workers

_STOP_GRACE_S: Final = 1.0
log = structlog.get_logger("bmq.cli")


class NodeSettingsIncomplete(BmqError):
    """A node cannot join a cluster with these settings."""


def run_node(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, here or in workers.

    Raises BmqError with one sentence when it cannot start or has to end.
    """
    _check(settings)
    if settings.workers:
        load_all()  # once for all workers
        run_workers(settings, _run)
    else:
        _run(settings)


def _run(settings: Settings, supervisor: Connection | None = None) -> None:
    logs = own_logs(settings, SystemClock().now_ms)
    uvloop.run(_serve(settings, supervisor, prepare_process(settings, logs), logs))


def _check(settings: Settings) -> None:
    if not is_hdfs(settings.store):
        raise NodeSettingsIncomplete(
            "a node needs --store hdfs://NAMENODE:PORT/DIR: several processes cannot share an embedded store "
            "(`bmq standalone` is the whole server in one process)"
        )
    if not settings.zookeeper:
        raise NodeSettingsIncomplete("a node needs --zookeeper HOST:PORT: there the nodes of a cluster find each other")
    roles = split_roles(settings.roles)
    if ROLE_COORDINATOR in roles and ROLE_BROKER not in roles:
        raise NodeSettingsIncomplete(
            "the coordinator role needs the broker role in the same process: a shard lives where its partition is owned"
        )
    require_usable_addresses(settings, is_node=True)
    InternodeTls(settings)  # raises if it cannot be
    check_tracing(settings)


async def _serve(settings: Settings, supervisor: Connection | None, levels: LogLevels, logs: OwnLogs) -> None:
    asked = stop_on_signals()
    stop = asyncio.ensure_future(asked.wait())
    heartbeat = None if supervisor is None else Heartbeat(supervisor, on_alone=asked.set)
    watchdog = LoopWatchdog(settings.loop_hang_max_ms / 1000, settings.node_id)
    clock = SystemClock()
    rest = GuardedRest(settings, lambda: server.image, lambda: server.is_serving, clock)
    rest_address = bind_rest(rest, settings.rest)
    rng = random.Random(os.urandom(16))
    store = await unless_stopped(open_store(settings, rng), stop)
    if store is None:
        return
    tracing = start_tracing(settings, rng)
    election = ZooKeeperElection(
        settings.zookeeper,
        node_id=settings.node_id,
        session_timeout_s=settings.cluster.zookeeper_session_ms / 1000,
        start_wait_s=settings.start_wait_ms / 1000,
        on_session=None if heartbeat is None else heartbeat.send_session,
        security=settings.zookeeper_security,
    )
    server = NodeServer(
        settings,
        store,
        election,
        clock,
        rng,
        rest=rest_address,
        log_levels=levels,
        hooks=NodeHooks(
            on_controller_started=lambda: node_rest.operations.controller_gained(),
            on_controller_ended=lambda: node_rest.operations.controller_lost(),
            cleaning=CompactionProcess(settings),
            trim_memory=trim_memory,
            traces=None if tracing is None else tracing.traces,
        ),
    )
    node_rest = NodeRest(server, settings, store, clock, rng, rest.scheme, logs)
    try:
        await rest.start(node_rest.pages)
        addresses = await unless_stopped(_start(server, settings), stop)
        if addresses is None:
            return
        client, internal = addresses
        register_all(server, store, logs.errors)
        if tracing is not None:
            tracing.register_metrics(REGISTRY)
        gc.freeze()
        _say_ready(settings.node_id, client, internal, rest_address)
        watchdog.start() if heartbeat is None else heartbeat.start()
        with live_summary(server) if heartbeat is None else nullcontext():
            async with failing_with(store, server.failed):
                ends: set[asyncio.Future[Any]] = {stop, server.failed}
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        log.info("server_stopping")
    finally:
        stop.cancel()
        await node_rest.close()
        await _stop(server, settings)
        await rest.stop()
        await node_rest.pages.close()
        await store.close()
        if tracing is not None:
            await tracing.close()
        watchdog.close()
        if heartbeat is not None:
            heartbeat.close()
    log.info("server_stopped")
    if server.failed.done():
        server.failed.result()


def _say_ready(node_id: int, client: tuple[str, int] | None, internal: tuple[str, int], rest: tuple[str, int]) -> None:
    kafka = "-" if client is None else f"{client[0]}:{client[1]}"
    sys.stdout.write(
        f"bmq node ready id={node_id} kafka={kafka} internal={internal[0]}:{internal[1]} rest={rest[0]}:{rest[1]}\n"
    )
    sys.stdout.flush()
    log.info("server_ready", kafka=kafka, internal=f"{internal[0]}:{internal[1]}")


async def _start(server: NodeServer, settings: Settings) -> tuple[tuple[str, int] | None, tuple[str, int]]:
    try:
        return await server.start()
    except OSError as error:
        raise AddressInUse(bind_sentence(f"{settings.listen} or {settings.internal}", error)) from error


async def _stop(server: NodeServer, settings: Settings) -> None:
    stopping = asyncio.ensure_future(server.stop())
    wait_ms = settings.cluster.shutdown_wait_max_ms + settings.stop_timeout_ms
    _, late = await asyncio.wait({stopping}, timeout=wait_ms / 1000 + _STOP_GRACE_S)
    if late:
        # Everything acknowledged is durable already; the next owner recovers unsealed partitions.
        log.warning("stop_timed_out", stop_timeout_ms=settings.stop_timeout_ms)
        stopping.cancel()
        await asyncio.wait({stopping})
    stopping.cancelled() or stopping.result()
