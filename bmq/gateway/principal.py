"""One user's clients of the cluster: made when first used, closed when nobody uses them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from bmq.gateway.credentials import Credentials
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.received import failure_of
from bmq.gateway.shared_bounds import SharedBounds

T = TypeVar("T")
_MORE_S = 2.0
_LOGIN_POLL_S = 0.02


@runtime_checkable
class Ticking(Protocol):
    """A part that has to be polled now and then, also without a call."""

    def tick(self) -> None: ...


class Principal:
    """`config`: of all its clients (cluster_config). `answer_wait_s`: how long the cluster may take for an answer.

    `shared`: bounds that all users share. `users`: calls in progress. `parts`: what other modules keep for this user, by their class.
    """

    def __init__(self, config: Mapping[str, Any], shared: SharedBounds, credentials: Credentials) -> None:
        self.credentials = credentials
        self.config = dict(config)
        self.shared = shared
        self.settings = settings = shared.settings
        self.answer_wait_s = settings.login_wait_max_ms / 1000
        self.users = 0
        self.idle_since_s = 0.0
        self.logged_in_s = 0.0
        self.parts: dict[type, Any] = {}
        self._refusal: asyncio.Future[GatewayFailed] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self.admin = AdminClient({**self.config, "error_cb": self._note_error})

    def part(self, kind: type[T]) -> T:
        """The one part of this class; it is made with this principal."""
        if kind not in self.parts:
            self.parts[kind] = kind(self)  # type: ignore[call-arg]
        return cast("T", self.parts[kind])

    async def log_in(self) -> None:
        """Ask the cluster once. Raises GatewayFailed: UNAUTHENTICATED when it refuses the login, UNAVAILABLE without answer."""
        asked = asyncio.ensure_future(
            self.answer(self.admin.describe_cluster(request_timeout=self.answer_wait_s), "the login")
        )
        while not asked.done() and not self._refusal.done():
            self.tick()  # the library tells errors, and asks for tokens, while it is polled
            await asyncio.wait({asked, self._refusal}, timeout=_LOGIN_POLL_S, return_when=asyncio.FIRST_COMPLETED)
        if self._refusal.done() and not asked.done():
            asked.cancel()
        if self._refusal.done():
            raise self._refusal.result()
        try:
            asked.result()
        except GatewayFailed as failed:
            if failed.status in ("DEADLINE_EXCEEDED", "UNAVAILABLE"):
                raise GatewayFailed(
                    "UNAVAILABLE", "the cluster does not answer; try again", failed.kafka_error
                ) from None
            raise

    def tick(self) -> None:
        """Let the library call back; do it now and then."""
        self.admin.poll(0)
        for part in list(self.parts.values()):
            if isinstance(part, Ticking):
                part.tick()

    async def answer(self, future: Future[T], what: str) -> T:
        """The result of a call of the admin client. Raises GatewayFailed."""
        try:
            async with asyncio.timeout(self.answer_wait_s + _MORE_S):
                return await asyncio.wrap_future(future)
        except KafkaException as error:
            raise failure_of(error.args[0], what) from None
        except TimeoutError:
            raise GatewayFailed("DEADLINE_EXCEEDED", f"{what}: the cluster does not answer in time") from None
        except (ValueError, TypeError) as error:
            raise GatewayFailed("INVALID_ARGUMENT", f"{what}: {error}") from None

    async def close(self) -> None:
        """Close all clients; blocks no one."""
        while self.parts:
            await self.parts.pop(next(iter(self.parts))).close()
        admin, self.admin = self.admin, None
        await asyncio.to_thread(_let_go, [admin])

    def _note_error(self, error: Any) -> None:
        """Called by a thread of the library."""
        if error.name() in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"):
            self._loop.call_soon_threadsafe(self._refuse)

    def _refuse(self) -> None:
        if not self._refusal.done():
            # The cluster's own sentence may name the user; a wrong password and an unknown user look alike here.
            self._refusal.set_result(GatewayFailed("UNAUTHENTICATED", "the cluster refuses this login"))


def _let_go(clients: list[Any]) -> None:
    """Destroys the clients: the library waits for its threads."""
    clients.clear()
