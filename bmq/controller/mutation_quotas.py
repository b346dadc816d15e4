"""How many partitions a second a client may create, add or delete (`controller_mutation_rate`, KIP-599).

One token for each partition, 11 s' worth at most. A request may overdraw the bucket once. Newer versions of the requests
are then refused with THROTTLING_QUOTA_EXCEEDED, topic by topic; older ones are carried out and their client is muted.
Requests that only validate count too, as in Kafka. Source: ControllerMutationQuotaManager (4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.security.quotas.entities import CONTROLLER_MUTATION_RATE, Quotas
from bmq.security.quotas.precedence import Sharers, limit_of
from bmq.security.quotas.token_bucket import TokenBucket

STRICT_FROM: Final[Mapping[ApiKey, int]] = {
    ApiKey.CREATE_TOPICS: 6,
    ApiKey.DELETE_TOPICS: 5,
    ApiKey.CREATE_PARTITIONS: 3,
}
"""The first version that is refused."""
BUCKETS_MAX: Final = 10_000
"""Beyond it full buckets are forgotten, which changes nothing, then the one that was not used for longest."""
_WAIT_MS_MAX: Final = 2**31 - 1


def uncharged(partitions: int) -> None:
    """For requests that no quota holds for."""


class MutationCharge:
    """What one request costs its client. Call it with a number of partitions before they are changed."""

    def __init__(self, bucket: TokenBucket, *, is_strict: bool, now_ms: int) -> None:
        self._bucket = bucket
        self._is_strict = is_strict
        self._now_ms = now_ms
        self.throttle_ms = 0

    def __call__(self, partitions: int) -> None:
        """Raises KafkaError THROTTLING_QUOTA_EXCEEDED."""
        if self._is_strict:
            self._note()
            if self.throttle_ms:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
            self._bucket.take(partitions, self._now_ms)
        else:
            self._bucket.take(partitions, self._now_ms)
            self._note()

    def _note(self) -> None:
        self.throttle_ms = max(self.throttle_ms, min(self._bucket.wait_ms(self._now_ms), _WAIT_MS_MAX))


class MutationQuotas:
    """The buckets of all clients. `now_ms()` does not go back."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._buckets: dict[Sharers, TokenBucket] = {}

    def charge(
        self, quotas: Quotas, api_key: ApiKey, api_version: int, principal: str, client_id: str | None
    ) -> MutationCharge | None:
        """The charge of one request; None: no quota holds for its client."""
        limit = limit_of(quotas, CONTROLLER_MUTATION_RATE, principal.partition(":")[2], client_id or "")
        if limit is None:
            return None
        now_ms = self._now_ms()
        bucket = self._buckets.pop(limit.sharers, None)
        if bucket is None:
            self._make_room(now_ms)
            bucket = TokenBucket(limit.value, now_ms)
        bucket.set_limit(limit.value, now_ms)
        self._buckets[limit.sharers] = bucket  # behind the others: the first was not used for longest
        return MutationCharge(bucket, is_strict=api_version >= STRICT_FROM[api_key], now_ms=now_ms)

    def _make_room(self, now_ms: int) -> None:
        if len(self._buckets) >= BUCKETS_MAX:
            for sharers in [sharers for sharers, bucket in self._buckets.items() if bucket.is_full(now_ms)]:
                del self._buckets[sharers]
        if len(self._buckets) >= BUCKETS_MAX:
            del self._buckets[next(iter(self._buckets))]
