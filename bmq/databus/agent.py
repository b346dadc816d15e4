"""The agent as a whole: doors, intake, lanes and channels of one process, from the start to the stop."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import structlog
import uvicorn
from prometheus_client import CollectorRegistry

from bmq.channels.channel_set import ChannelSet
from bmq.databus.agent_metrics import AgentMetrics
from bmq.databus.channel_updates import ChannelUpdates, ClusterChannels, KeptChannels
from bmq.databus.doors.browser_guard import guarded_door
from bmq.databus.doors.http_door import http_door
from bmq.databus.doors.socket_door import SocketDoor
from bmq.databus.doors.unix_path import SocketUnusable, listening_socket
from bmq.databus.intake import Intake
from bmq.databus.lanes.kafka_transactions import KafkaTransactions, TransactionConfig, check_kafka_settings
from bmq.databus.lanes.lane_set import LaneSet
from bmq.databus.lanes.producer_process import ProducerProcess
from bmq.databus.settings import AgentSettings
from bmq.databus.spool.identity import SpoolDirectory
from bmq.databus.spool.spool import SpoolBudget
from bmq.rest_client.login import first_line

if TYPE_CHECKING:
    from bmq.databus.doors.grpc_door import GrpcDoor

_log = structlog.get_logger("bmq.databus")

SWITCH_S: Final = 0.0001
"""A lane's thread gives the interpreter back after this time, so that the loop answers applications within 2 ms."""
HTTP_BACKLOG: Final = 512
HTTP_CONNECTIONS_MAX: Final = 1_000
FILES_BESIDE_CONNECTIONS: Final = 1_000
_STOP_S: Final = 1


class Agent:
    """Call `start`, then `stop`. Raises KafkaSettingsUnusable, SpoolUnusable, SocketUnusable, LoginUnusable."""

    def __init__(self, settings: AgentSettings) -> None:
        self.settings = settings
        check_kafka_settings(settings.kafka_config)
        self._directory = SpoolDirectory(Path(settings.spool_dir), settings.agent_id, secrets.token_hex(4))
        self._budget = SpoolBudget(settings.spool_bytes_max)
        self._kept = KeptChannels(self._directory.directory)
        try:
            self._lanes = LaneSet(
                self._directory.directory,
                self._budget,
                lambda name, codec: ProducerProcess(self._transaction_config(name, codec)),
                lambda name, codec: KafkaTransactions(self._transaction_config(name, codec)),
                first_number=self._directory.identity.first_number,
                segment_bytes=settings.segment_bytes,
                is_synced=settings.fsync,
            )
        except Exception:
            self._directory.close()
            raise
        self.intake = Intake(
            self._lanes.lane_of,
            self._budget,
            now_ms=lambda: time.time_ns() // 1_000_000,
            now_s=time.monotonic,
            dice=Random().random,
            is_synced=settings.fsync,
        )
        self.intake.refused_topics = self._lanes.refused_topics
        self._door = SocketDoor(self.intake, settings, time.monotonic) if settings.socket else None
        self._grpc = _grpc_door(self.intake, settings) if settings.grpc else None
        self.grpc_address = ""
        self._updates: ChannelUpdates | None = None
        self._http: _HttpServer | None = None
        self._http_task: asyncio.Task[None] | None = None
        self.http_address = ""

    async def start(self) -> None:
        """Applications are served when this returns, whether the cluster is there or not."""
        loop = asyncio.get_running_loop()
        sys.setswitchinterval(SWITCH_S)
        _raise_open_files_limit(self.settings.connections_max + HTTP_CONNECTIONS_MAX + FILES_BESIDE_CONNECTIONS)
        known = self._kept.load()
        self._use(known.channels)
        self._updates = ChannelUpdates(
            self.settings.rest,
            self.settings.login,
            self.settings.agent_id,
            known,
            lambda found: self._use_from_thread(loop, found),
        )
        for token_file in filter(None, (self.settings.http_token_file, self.settings.grpc_token_file)):
            first_line(token_file)
        if self._door is not None:
            await self._door.open()
        if self.settings.http:
            await self._open_http()
        if self._grpc is not None:
            self.grpc_address = await self._grpc.open()
        self._lanes.start()
        self._updates.start()

    async def stop(self) -> bool:
        """Refuse new records, answer those that were taken, and produce them if there is time. Whether all are produced;
        the others are produced after the next start."""
        self.intake.is_stopping = True
        if self._updates is not None:
            self._updates.stop()
        await self.intake.drained()
        if self._door is not None:
            await self._door.close()
        if self._grpc is not None:
            await self._grpc.close()
        if self._http is not None and self._http_task is not None:
            self._http.should_exit = True
            await self._http_task
        if self.settings.http.startswith("unix:"):
            Path(self.settings.http.removeprefix("unix:")).unlink(missing_ok=True)
        is_empty = await asyncio.to_thread(self._lanes.stop, self.settings.stop_wait_s)
        for spool in self._lanes.spools():
            spool.close()
        self._directory.close()
        return is_empty

    def status(self) -> dict[str, Any]:
        """What `/v1/status` shows."""
        updates = self._updates
        return {
            "agent_id": self.settings.agent_id,
            "channels_version": self.intake.channels.version,
            "channels": sorted(self.intake.channels.channels),
            "channels_trouble": "" if updates is None else updates.trouble,
            "spool_bytes": self._budget.used,
            "spool_bytes_max": self._budget.bytes_max,
            "lanes": [
                {
                    "name": lane.name,
                    "trouble": lane.trouble,
                    "is_empty": lane.is_empty and not self._lanes.parkings[key].waiting(),
                    "parked_topics": sorted(self._lanes.parkings[key].waiting()),
                    "position": lane.spool.position,
                    "last": lane.spool.last,
                }
                for key, lane in self._lanes.lanes.items()
            ],
            "refused_topics": dict(self._lanes.refused_topics),
        }

    # --- parts

    def _transaction_config(self, name: str, compression: str) -> TransactionConfig:
        return TransactionConfig(
            self.settings.kafka_config,
            transactional_id=f"bmq-databus-{self.settings.agent_id}-{name}",
            group=f"{self._directory.identity.group}-{name}",
            compression=compression,
            message_bytes_max=max(1_000_000, self.settings.frame_bytes_max + 65_536),
        )

    def _use(self, channels: ChannelSet) -> None:
        self.intake.use(channels)
        self._lanes.use(channels)

    def _use_from_thread(self, loop: asyncio.AbstractEventLoop, found: ClusterChannels) -> None:
        """Returns when the loop uses them. They are kept first: a start must not go back to older ones.

        Raises TimeoutError, CancelledError: the loop ends.
        """
        self._kept.save(found)
        channels = found.channels

        async def use() -> None:
            self._use(channels)

        asyncio.run_coroutine_threadsafe(use(), loop).result(60)
        _log.info("databus_channels_changed", version=channels.version, channels=len(channels.channels))

    async def _open_http(self) -> None:
        """Raises SocketUnusable."""
        settings = self.settings
        listener = _http_socket(settings)
        if not settings.http.startswith("unix:"):
            host = settings.http.rpartition(":")[0]
            self.http_address = f"{host}:{listener.getsockname()[1]}"
        registry = CollectorRegistry(auto_describe=False)
        calls = None if self._grpc is None else self._grpc.calls
        registry.register(
            AgentMetrics(self.intake, self._lanes, self._budget, self._door, lambda: self._updates, calls)
        )
        config = uvicorn.Config(
            guarded_door(http_door(self.intake, settings, registry, self.status), settings),
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            interface="asgi3",
            proxy_headers=False,
            limit_concurrency=HTTP_CONNECTIONS_MAX,
            timeout_graceful_shutdown=_STOP_S,
            backlog=HTTP_BACKLOG,
        )
        self._http = _HttpServer(config)
        self._http_task = asyncio.create_task(self._http.serve(sockets=[listener]))
        await self._http.is_up.wait()


class _HttpServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.is_up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Does nothing: the command handles signals itself."""
        yield


def _grpc_door(intake: Intake, settings: AgentSettings) -> GrpcDoor:
    # Imported late: only agents with this door need gRPC.
    from bmq.databus.doors.grpc_door import GrpcDoor

    return GrpcDoor(intake, settings)


def _http_socket(settings: AgentSettings) -> socket.socket:
    """Raises SocketUnusable."""
    if settings.http.startswith("unix:"):
        return listening_socket(
            Path(settings.http.removeprefix("unix:")),
            mode=int(settings.socket_mode, 8),
            owner=settings.socket_owner,
            group=settings.socket_group,
        )
    host, _, port = settings.http.rpartition(":")
    host = host.strip("[]")
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, int(port)))
    except OSError as error:
        listener.close()
        raise SocketUnusable(f"the HTTP door {settings.http} cannot be opened: {error.strerror}") from None
    return listener


def _raise_open_files_limit(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, limit), hard))
