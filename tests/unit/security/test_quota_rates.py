"""What is measured and how long a client has to wait, beside vectors that Kafka's own classes printed.

tests/support/java_programs/QuotaRates.java and QuotaPrecedence.java print them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.security.quotas.entities import PRODUCER_BYTE_RATE, entity_of
from bmq.security.quotas.precedence import Limit, Sharers, canonical_address, connection_rate_of, limit_of
from bmq.security.quotas.rate import Rate, rate_throttle_ms
from bmq.security.quotas.token_bucket import TokenBucket

pytestmark = pytest.mark.unit

DATA = Path(__file__).parent / "data"


def test_rates_and_throttle_times_are_kafkas() -> None:
    compared = {"rate": 0, "bucket": 0}
    kind, limit, rate, bucket = "", 0.0, Rate(), TokenBucket(1, 0)
    for line in (DATA / "quota_rates.txt").read_text().splitlines():
        words = line.split()
        if words[0] == "run":
            kind, limit = words[1], float(words[2])
            rate, bucket = Rate(), TokenBucket(limit, int(words[3]))
            continue
        now_ms, amount, throttle_ms, value = int(words[0]), float(words[1]), int(words[2]), float(words[3])
        if kind == "rate":
            rate.record(amount, now_ms)
            measured, over_ms = rate.measure(now_ms)
            assert (rate_throttle_ms(measured, limit, over_ms), measured) == (
                throttle_ms,
                pytest.approx(value, rel=1e-9),
            ), line
        else:
            bucket.take(amount, now_ms)
            assert (bucket.wait_ms(now_ms), bucket.tokens) == (throttle_ms, pytest.approx(value, rel=1e-9)), line
        compared[kind] += 1
    assert compared == {"rate": 480, "bucket": 240}


def test_what_is_taken_back_does_not_count() -> None:
    rate = Rate()
    rate.record(5_000, 0)
    rate.record(-5_000, 500)
    assert rate.measure(500)[0] == 0


def test_a_saturating_client_gets_its_limit_exactly_once_its_burst_is_over() -> None:
    limit, now_ms, sent = 1_048_576, 0, [0] * 100
    bucket = TokenBucket(limit, 0)
    while now_ms < 90_000:
        wait_ms = bucket.wait_ms(now_ms)
        if wait_ms:
            now_ms += wait_ms
            continue
        bucket.take(300_000, now_ms)
        sent[now_ms // 1_000] += 300_000
        now_ms += 3
    assert sum(sent[30:90]) == pytest.approx(60 * limit, rel=0.01)
    assert sum(sent[:30]) <= 41.3 * limit


def test_another_limit_keeps_what_is_owed_and_drops_what_is_beyond_its_burst() -> None:
    bucket = TokenBucket(100, 0)
    bucket.set_limit(10, 0)
    assert bucket.tokens == 110
    bucket.take(210, 0)
    bucket.set_limit(1_000, 0)
    assert bucket.wait_ms(0) == 100


LEVELS = (
    (("client-id", "c"), ("user", "u")),
    (("client-id", None), ("user", "u")),
    (("user", "u"),),
    (("client-id", "c"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "c"),),
    (("client-id", None),),
)


def test_the_quota_in_force_and_who_shares_it_are_kafkas() -> None:
    lines = (DATA / "quota_precedence.txt").read_text().splitlines()
    assert len(lines) == 256
    for line in lines:
        chosen, limit, user, client_id = line.split()
        quotas = {
            entity_of(entity): {PRODUCER_BYTE_RATE: float(level + 1)}
            for level, entity in enumerate(LEVELS)
            if int(chosen) >> level & 1
        }
        expected = None
        if limit != "-":
            expected = Limit(float(limit), Sharers(user.replace("-", ""), client_id.replace("-", "")))
        assert limit_of(quotas, PRODUCER_BYTE_RATE, "u", "c") == expected, line
        assert limit_of(quotas, "consumer_byte_rate", "u", "c") is None


def test_addresses_are_compared_in_one_form() -> None:
    quotas = {
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
        (("ip", None),): {"connection_creation_rate": 7.0},
    }
    assert connection_rate_of(quotas, "::ffff:10.0.0.1") == connection_rate_of(quotas, "10.0.0.1") == 5  # type: ignore[arg-type]
    assert connection_rate_of(quotas, "10.0.0.2") == 7  # type: ignore[arg-type]
    assert connection_rate_of({}, "10.0.0.2") is None
    assert canonical_address("0:0:0:0:0:0:0:1") == canonical_address("::1") == "::1"
    assert canonical_address("example.org") is None
