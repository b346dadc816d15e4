"""The quotas of all clients of a process: which quota a client has, and the buckets that clients share.

While no quota is set, requests cost no look-up. With quotas there is one per connection, client id and change of quotas. Buckets
belong to users and client ids, so a client that reconnects gets the bucket that it had.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Final

from bmq.protocol.internal_messages import QuotaShare, QuotaUse
from bmq.proxy.client_throttle import ClientThrottle
from bmq.proxy.connection_rates import ConnectionRates
from bmq.proxy.mute import Mute
from bmq.proxy.request_time import RequestTime
from bmq.proxy.shared_bucket import SharedBucket
from bmq.proxy.throttle_stats import ThrottleStats
from bmq.security.quotas.entities import (
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Quotas,
)
from bmq.security.quotas.precedence import limit_of

BUCKETS_MAX: Final = 10_000
"""Most buckets in memory. Above it idle buckets are dropped, which changes nothing, because a new bucket is as full. If none is
idle, a further client id has a bucket that only its connection has."""
_FORGOTTEN_EVERY_S: Final = 1.0
USES_MAX: Final = 1_000
"""Most quotas in one report of use to the controller; others are divided evenly among proxies."""
_IN_USE_MS: Final = 5_000


class Throttles:
    """The throttles of a process. `quotas_changed` and `set_connection_rate` may be called at any time."""

    def __init__(self, elapsed_s: Callable[[], float] | None = None) -> None:
        """`elapsed_s`: a clock that advances within a turn of the event loop, for the time that requests take."""
        self.is_active = False
        self.connection_rates: ConnectionRates | None = None
        self._elapsed_s = elapsed_s
        self._quotas: Quotas = {}
        self._node_rate: float | None = None
        self._bytes: dict[tuple[str, str, str], SharedBucket] = {}
        self._times: dict[tuple[str, str], RequestTime] = {}
        self._is_cluster_wide = False
        self._proxies = 1
        self._changed: list[Callable[[], None]] = []
        self._forgotten_s = -_FORGOTTEN_EVERY_S
        self.stats = ThrottleStats(
            lambda: (
                len(self._bytes) + len(self._times),
                sum(len(bucket.waiting) for bucket in self._bytes.values()),
            )
        )

    def on_change(self, changed: Callable[[], None]) -> None:
        """Call `changed` after each change of quotas, after which throttles that `of` has returned are outdated."""
        self._changed.append(changed)

    def quotas_changed(self, quotas: Quotas) -> None:
        """Set other quotas. Buckets that remain keep their level."""
        if quotas is self._quotas:
            return
        self._quotas = quotas
        self.is_active = bool(quotas)
        self._set_connection_rates()
        self._notify()

    def set_connection_rate(self, rate: float | None) -> None:
        """Set `max.connection.creation.rate` of this node; None for no limit."""
        if rate != self._node_rate:
            self._node_rate = rate
            self._set_connection_rates()

    # --- quotas of the whole cluster

    def set_scope(self, *, is_cluster: bool) -> None:
        """Set whether byte quotas are for all proxies together."""
        if is_cluster != self._is_cluster_wide:
            self._is_cluster_wide = is_cluster
            self._divide_evenly()

    def set_proxies(self, count: int) -> None:
        """Set the number of live proxies. Without other shares each gives out the same part of a quota."""
        self._proxies = max(count, 1)

    def uses(self) -> list[QuotaUse]:
        """The use, since the last call, of quotas that were used lately. Other quotas are divided evenly again."""
        found = []
        if self._is_cluster_wide:
            for (key, user, client_id), bucket in self._bytes.items():
                if bucket.idle_ms() > _IN_USE_MS:
                    bucket.set_share(self._even_share)
                    continue
                used_bytes, bucket.unreported_bytes = bucket.unreported_bytes, 0
                found.append(QuotaUse(key=key, user=user, client_id=client_id, used_bytes=used_bytes))
                if len(found) == USES_MAX:
                    break
        return found

    def take_shares(self, shares: Iterable[QuotaShare]) -> None:
        """Set the shares in the controller's answer."""
        if self._is_cluster_wide:
            for one in shares:
                bucket = self._bytes.get((one.key, one.user, one.client_id))
                if bucket is not None and 0 < one.share <= 1:
                    bucket.set_share(one.share)

    @property
    def _even_share(self) -> float:
        return 1 / self._proxies if self._is_cluster_wide else 1.0

    def _divide_evenly(self) -> None:
        for bucket in self._bytes.values():
            bucket.set_share(self._even_share)

    # --- clients

    def of(self, principal: str, client_id: str | None, mute: Callable[[], Mute]) -> ClientThrottle | None:
        """The throttle of one connection; None if it has no quota. `mute()`: returns that connection's mute."""
        user, client = principal.partition(":")[2], client_id or ""
        produce = self._bucket(PRODUCER_BYTE_RATE, user, client)
        fetch = self._bucket(CONSUMER_BYTE_RATE, user, client)
        time = self._request_time(user, client)
        is_mutating = limit_of(self._quotas, CONTROLLER_MUTATION_RATE, user, client) is not None
        if produce is None and fetch is None and time is None and not is_mutating:
            return None
        return ClientThrottle(produce, fetch, time, mute(), self.stats)

    def _bucket(self, key: str, user: str, client_id: str) -> SharedBucket | None:
        limit = limit_of(self._quotas, key, user, client_id)
        if limit is None:
            return None
        place = (key, *limit.sharers)
        bucket = self._bytes.get(place)
        if bucket is None:
            bucket = SharedBucket(asyncio.get_running_loop(), limit.value, self._even_share)
            if self._has_room(self._bytes):
                self._bytes[place] = bucket
        else:
            bucket.set_quota(limit.value)
        return bucket

    def _request_time(self, user: str, client_id: str) -> RequestTime | None:
        limit = limit_of(self._quotas, REQUEST_PERCENTAGE, user, client_id)
        if limit is None or self._elapsed_s is None:
            return None
        time = self._times.get(limit.sharers)
        if time is None:
            time = RequestTime(asyncio.get_running_loop(), self._elapsed_s, limit.value)
            if self._has_room(self._times):
                self._times[limit.sharers] = time
        time.limit = limit.value
        return time

    def _has_room(self, buckets: dict[Any, Any]) -> bool:
        if len(buckets) < BUCKETS_MAX:
            return True
        loop = asyncio.get_running_loop()
        if loop.time() - self._forgotten_s < _FORGOTTEN_EVERY_S:
            return False
        self._forgotten_s = loop.time()
        idle: list[Hashable] = [key for key, bucket in buckets.items() if bucket.is_idle]
        for key in idle:
            del buckets[key]
        loop.call_soon(self._notify)  # connections that still have one of these look up their throttle again
        return bool(idle)

    def _notify(self) -> None:
        for changed in self._changed:
            changed()

    def _set_connection_rates(self) -> None:
        has_addresses = any(entity[0][0] == "ip" for entity in self._quotas)
        if not has_addresses and self._node_rate is None:
            self.connection_rates = None
            return
        if self.connection_rates is None:
            loop = asyncio.get_running_loop()
            self.connection_rates = ConnectionRates(self.stats, lambda: int(loop.time() * 1_000))
        self.connection_rates.set_limits(self._quotas, self._node_rate)
