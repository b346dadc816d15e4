"""Checks bearer tokens by keys that are read again and again: at the start, each hour, and when a token names a new key.

Source: VerificationKeyResolverFactory and RefreshingHttpsJwks of Apache Kafka (4.3). Ours besides: a server starts without
keys, says so once, and closes logins until it has some; all unknown names of keys together cause one read in a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from bmq.dataclass import dataclass
from bmq.security.bearer import BearerRefused, BearerUnavailable
from bmq.security.oauth.claims import ClaimRules, verified
from bmq.security.oauth.key_set import KeySet, UnknownKey, WrongKeySet
from bmq.security.oauth.verifier import VerifiedBearer

_log = structlog.get_logger("bmq.server")


class KeysNotRead(Exception):
    """The source of keys cannot be reached; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class RefreshTimes:
    """`unknown_key_pause_s`: from one read because of an unknown key to the next one."""

    refresh_s: float = 3_600.0
    retry_min_s: float = 0.1
    retry_max_s: float = 10.0
    unknown_key_pause_s: float = 10.0


class JwksVerifier:
    """Implements BearerVerifier. `read`: the set of keys as bytes; raises KeysNotRead. Call `start`, once, and `close`."""

    def __init__(
        self, read: Callable[[], Awaitable[bytes]], rules: ClaimRules, now_ms: Callable[[], int], times: RefreshTimes
    ) -> None:
        self._read = read
        self._rules = rules
        self._now_ms = now_ms
        self._times = times
        self._keys: KeySet | None = None
        self._is_failing = False
        self._refresh: asyncio.Task[bool] | None = None
        self._asked_at_s: float | None = None
        self._refreshing: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to read."""
        self._refreshing = asyncio.get_running_loop().create_task(self._refresh_for_ever())

    def close(self) -> None:
        for task in (self._refreshing, self._refresh):
            if task is not None:
                task.cancel()

    async def verify(self, token: str) -> str:
        """Implements BearerVerifier.verify."""
        return (await self.verified(token)).name

    async def verified(self, token: str) -> VerifiedBearer:
        """Implements BearerVerifier.verified."""
        if self._keys is None and not await self._read_once():
            raise BearerUnavailable("the keys of bearer tokens were not read yet")
        assert self._keys is not None
        try:
            claims = self._keys.claims_of(token)
        except UnknownKey:
            await self._read_for_unknown()
            try:
                claims = self._keys.claims_of(token)
            except UnknownKey:
                raise BearerRefused("the token is signed by a key that its issuer does not publish") from None
        return verified(claims, self._rules, self._now_ms())

    async def _read_for_unknown(self) -> None:
        """Raises BearerUnavailable: the key may be new."""
        now_s = asyncio.get_running_loop().time()
        is_due = self._asked_at_s is None or now_s - self._asked_at_s >= self._times.unknown_key_pause_s
        if is_due:
            self._asked_at_s = now_s
        elif self._refresh is None:
            if self._is_failing:
                raise BearerUnavailable("the token's key is unknown, and the keys cannot be read again now")
            return
        if not await self._read_once():
            raise BearerUnavailable("the token's key is unknown, and the keys cannot be read again now")

    async def _read_once(self) -> bool:
        """Whether it succeeded. All callers share one read."""
        if self._refresh is None:
            self._refresh = asyncio.get_running_loop().create_task(self._read_keys())
            self._refresh.add_done_callback(self._read_ended)
        return await asyncio.shield(self._refresh)

    def _read_ended(self, task: asyncio.Task[bool]) -> None:
        self._refresh = None

    async def _read_keys(self) -> bool:
        try:
            keys = KeySet.read(await self._read())
        except (KeysNotRead, WrongKeySet) as error:
            if not self._is_failing:
                kept = 0 if self._keys is None else len(self._keys)
                _log.warning("bearer_keys_not_read", reason=str(error), keys_kept=kept)
            self._is_failing = True
            return False
        if self._keys is None or self._is_failing:
            _log.info("bearer_keys_read", keys=len(keys))
        self._keys, self._is_failing = keys, False
        return True

    async def _refresh_for_ever(self) -> None:
        times = self._times
        pause_s = times.retry_min_s
        while True:
            if await self._read_once():
                pause_s = times.retry_min_s
                await asyncio.sleep(times.refresh_s)
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, times.retry_max_s)
