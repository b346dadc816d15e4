"""The users who are connected to the cluster: one Principal each, bounded, closed after a time without calls."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from bmq.gateway.cluster_config import client_config, require_usable
from bmq.gateway.credentials import Credentials, token_end_s
from bmq.gateway.failure import GatewayFailed
from bmq.gateway.principal import Principal
from bmq.gateway.shared_bounds import SharedBounds

FAILED_LOGINS_MAX: Final = 10_000
LOGINS_WAITING_MAX: Final = 256

_log = structlog.get_logger("bmq.gateway")


class Principals:
    """`shared`: bounds that all users share. `now_s`: seconds since 1970. `make`: makes a Principal of librdkafka's settings; tests hand in theirs."""

    def __init__(
        self,
        shared: SharedBounds,
        now_s: Callable[[], float],
        make: Callable[..., Principal] = Principal,
        salt: bytes | None = None,
    ) -> None:
        self._shared = shared
        self._settings = settings = shared.settings
        self._now_s = now_s
        self._make = make
        self._salt = os.urandom(16) if salt is None else salt
        self._loop = asyncio.get_running_loop()
        self._known: dict[bytes, asyncio.Task[Principal]] = {}
        self._refused_until_s: dict[bytes, float] = {}
        self._logins = asyncio.Semaphore(settings.logins_at_once_max)
        self._login_age_max_s = settings.login_age_max_ms / 1000
        self._waiting = 0
        self._checking: dict[bytes, asyncio.Task[None]] = {}
        self._retired: set[Principal] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._is_closed = False

    @property
    def count(self) -> int:
        return len(self._known) + len(self._retired)

    @asynccontextmanager
    async def of(self, credentials: Credentials) -> AsyncIterator[Principal]:
        """The user's clients, logged in, for as long as a call takes. Raises GatewayFailed."""
        require_usable(credentials, self._settings.security_protocol)
        if credentials.token and token_end_s(credentials.token, math.inf) <= self._now_s():
            raise GatewayFailed("UNAUTHENTICATED", "the token has ended; send a newer one")
        key = credentials.key(self._salt)
        principal = await self._logged_in(key, credentials)
        principal.users += 1
        try:
            yield principal
        finally:
            principal.users -= 1
            principal.idle_since_s = self._loop.time()
            if principal.users == 0 and principal in self._retired:
                self._retired.discard(principal)
                self._close_soon(principal)

    async def _logged_in(self, key: bytes, credentials: Credentials) -> Principal:
        while True:
            if self._refused_until_s.get(key, 0.0) > self._loop.time():
                raise GatewayFailed("UNAUTHENTICATED", "the cluster refused this login a moment ago")
            if self._is_closed:
                raise GatewayFailed("UNAVAILABLE", "this gateway stops; connect again")
            task = self._known.get(key)
            if task is None:
                self._require_room()
                task = self._known[key] = asyncio.ensure_future(self._log_in(key, credentials))
            principal = await asyncio.shield(task)
            if self._known.get(key) is not task:  # it was closed as idle before this call came to its turn
                continue
            if credentials.is_anonymous or self._loop.time() - principal.logged_in_s < self._login_age_max_s:
                return principal
            await self._check_again(key, credentials, principal)

    def _require_room(self) -> None:
        if self.count >= self._settings.principals_max and not self._drop_idle(0.0, count_max=1):
            raise GatewayFailed(
                "RESOURCE_EXHAUSTED",
                f"{self._settings.principals_max} users are connected through this gateway; try later",
            )
        self._require_turn()

    def _require_turn(self) -> None:
        if self._waiting >= LOGINS_WAITING_MAX:
            raise GatewayFailed("RESOURCE_EXHAUSTED", "too many logins wait; try later")

    async def _log_in(self, key: bytes, credentials: Credentials) -> Principal:
        try:
            return await self._asked(key, credentials)
        except BaseException:
            self._known.pop(key, None)
            raise

    async def _asked(self, key: bytes, credentials: Credentials) -> Principal:
        """Clients that the cluster has let in just now. Raises GatewayFailed."""
        self._waiting += 1
        try:
            async with self._logins:
                config = client_config(self._settings, credentials, self._now_s)
                principal = self._make(config, self._shared, credentials)
                principal.idle_since_s = principal.logged_in_s = self._loop.time()
                try:
                    await principal.log_in()
                except BaseException:
                    self._close_soon(principal)
                    raise
                return principal
        except GatewayFailed as failed:
            if failed.status == "UNAUTHENTICATED":
                self._note_refused(key)
            raise
        finally:
            self._waiting -= 1

    async def _check_again(self, key: bytes, credentials: Credentials, principal: Principal) -> None:
        """Ask the cluster about an old login, once for all calls that wait. Raises GatewayFailed."""
        task = self._checking.get(key)
        if task is None:
            self._require_turn()
            task = self._checking[key] = asyncio.ensure_future(self._check(key, credentials, principal))
            task.add_done_callback(lambda done: self._end_check(key, done))
        await asyncio.shield(task)

    async def _check(self, key: bytes, credentials: Credentials, principal: Principal) -> None:
        """By a connection of its own. A user who is refused keeps the calls that are open, and has no new ones."""
        try:
            asked = await self._asked(key, credentials)
        except GatewayFailed as failed:
            task = self._known.get(key)
            if failed.status == "UNAUTHENTICATED" and task is not None and task.done() and task.result() is principal:
                del self._known[key]
                self._retire(principal)
            raise
        principal.logged_in_s = asked.logged_in_s
        self._close_soon(asked)

    def _end_check(self, key: bytes, task: asyncio.Task[None]) -> None:
        del self._checking[key]
        if not task.cancelled():
            task.exception()  # the calls that wait for it get it

    def _retire(self, principal: Principal) -> None:
        if principal.users:
            self._retired.add(principal)
        else:
            self._close_soon(principal)

    def _note_refused(self, key: bytes) -> None:
        if len(self._refused_until_s) >= FAILED_LOGINS_MAX:
            del self._refused_until_s[next(iter(self._refused_until_s))]
        self._refused_until_s[key] = self._loop.time() + self._settings.failed_login_ms / 1000

    def tidy(self) -> None:
        """Close the clients of users without a call for long, and let the others call back; do it now and then."""
        self._drop_idle(self._settings.principal_idle_ms / 1000, count_max=len(self._known))
        now = self._loop.time()
        for retired in self._retired:
            retired.tick()
        for task in list(self._known.values()):
            if task.done() and not task.cancelled() and task.exception() is None:
                task.result().tick()
        self._refused_until_s = {key: end for key, end in self._refused_until_s.items() if end > now}

    def _drop_idle(self, idle_s: float, *, count_max: int) -> int:
        before = self._loop.time() - idle_s
        idle = [
            (task.result().idle_since_s, key)
            for key, task in self._known.items()
            if task.done() and not task.cancelled() and task.exception() is None and task.result().users == 0
        ]
        dropped = [key for since, key in sorted(idle)[:count_max] if since <= before]
        for key in dropped:
            self._close_soon(self._known.pop(key).result())
        return len(dropped)

    def _close_soon(self, principal: Principal) -> None:
        task = asyncio.ensure_future(principal.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close everything; no call may be in progress."""
        self._is_closed = True
        tasks = list(self._known.values())
        self._known.clear()
        for check in list(self._checking.values()):
            check.cancel()
            await asyncio.wait({check})
        while self._retired:
            self._close_soon(self._retired.pop())
        for task in tasks:
            if not task.done():
                task.cancel()
            await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                self._close_soon(task.result())
        while self._closing:
            await asyncio.wait(set(self._closing))
