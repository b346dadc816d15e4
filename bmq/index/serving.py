"""The process of `bmq index serve`: its engines, its address, its end."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from bmq.dataclass import dataclass
from bmq.index.answer import Answer
from bmq.index.engine import EngineLimits, QueryEngine
from bmq.index.file_planning import IndexFiles
from bmq.index.query import IndexQuery
from bmq.index.service import Definitions, QueryPool, index_service
from bmq.index.topic_log import TopicLog
from bmq.protocol.errors import BmqError
from bmq.rest_client.client import RestClient
from bmq.security.loopback import is_loopback_host
from bmq.table_definitions.stored import StoredTable

TOKEN_BYTES_MAX: Final = 4_096
_ANSWER_S: Final = 5
"""For an answer to be sent, once its query ended."""


class CannotServe(BmqError):
    """The service cannot start as it was asked to; the message says what to change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """`token_file`: a file with the token in its first line; None: only for a loopback address."""

    host: str
    port: int
    warehouse: str
    kafka: Mapping[str, str]
    token_file: Path | None
    queries_max: int
    waiting_max: int
    limits: EngineLimits


class ThreadEngine:
    """An engine with a Kafka client of its own."""

    def __init__(self, settings: ServeSettings) -> None:
        self._topics = TopicLog(settings.kafka)
        self._engine = QueryEngine(
            IndexFiles(settings.warehouse),
            self._topics,
            settings.limits,
            now_ms=lambda: time.time_ns() // 1_000_000,
        )

    def query(self, stored: StoredTable, query: IndexQuery) -> Answer:
        """Raises QueryFailed."""
        return self._engine.query(stored, query)

    def close(self) -> None:
        self._engine.close()
        self._topics.close()


def serve(settings: ServeSettings, client: RestClient) -> None:
    """Serve until SIGTERM or Ctrl-C. Prints one line when it is ready. Raises CannotServe, SourceAway."""
    token = required_token(settings.host, settings.token_file)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn ends in order, and then raises the signal again.
        signal.signal(number, lambda *_: sys.exit(0))
    pool = QueryPool(
        lambda: ThreadEngine(settings),
        Definitions(client),
        queries_max=settings.queries_max,
        waiting_max=settings.waiting_max,
    )
    _Announcing(server_config(settings, index_service(pool, token))).run()


def server_config(settings: ServeSettings, application: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        application,
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        # A client that does not take its answer does not keep the process.
        timeout_graceful_shutdown=round(settings.limits.timeout_s) + _ANSWER_S,
    )


class _Announcing(uvicorn.Server):
    """Says its address once it listens."""

    async def startup(self, sockets: list[object] | None = None) -> None:  # type: ignore[override]
        await super().startup(sockets=sockets)  # type: ignore[arg-type]
        if self.started:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            sys.stdout.write(f"bmq index ready http={host}:{port}\n")
            sys.stdout.flush()


def required_token(host: str, file: Path | None) -> str | None:
    """The token in the file. Raises CannotServe: it cannot be read, or there has to be one."""
    if file is None:
        if is_loopback_host(host):
            return None
        raise CannotServe(
            f"{host} is reached by others, and every client may read all topics: name --token-file, or listen on 127.0.0.1"
        )
    try:
        with file.open("rb") as opened:
            token = opened.read(TOKEN_BYTES_MAX).decode().partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CannotServe(
            f"the token file {file} cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not token:
        raise CannotServe(f"the token file {file} has no token in its first line")
    return token
