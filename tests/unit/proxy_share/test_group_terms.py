"""What a share group's configs say of its fetches."""

from __future__ import annotations

import pytest

from bmq.proxy.share.group_terms import Reset, ShareDefaults, reset_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("latest", Reset("latest")),
        (" Earliest", Reset("earliest")),
        ("by_duration:PT1H", Reset("by_duration:", 3_600_000)),
        ("by_duration:P1DT1M0.5S", Reset("by_duration:", 86_460_500)),
        ("by_duration:pt5s", Reset("by_duration:", 5_000)),
        ("by_duration:PT-1S", None),
        ("by_duration:PT0S", None),
        ("by_duration:P", None),
        ("by_duration:1h", None),
        ("by_duration", None),
        ("none", None),
        ("", None),
    ],
)
def test_reset_strategies(text: str, found: Reset | None) -> None:
    assert reset_of(text) == found


def test_defaults_and_own_values() -> None:
    terms = ShareDefaults().terms({})
    assert terms == (Reset("latest"), False, True, 30_000, False)
    own = {
        "share.auto.offset.reset": "earliest",
        "share.isolation.level": "read_committed",
        "share.renew.acknowledge.enable": "false",
        "share.record.lock.duration.ms": "1000",
    }
    assert ShareDefaults().terms(own) == (Reset("earliest"), True, False, 15_000, False)
    assert ShareDefaults(min_record_lock_duration_ms=1_000).terms(own).lock_timeout_ms == 1_000
    assert ShareDefaults().terms({"share.record.lock.duration.ms": "many"}).lock_timeout_ms == 30_000


def test_the_order_of_keys_is_kept_where_the_group_says_so() -> None:
    name = "bmq.share.subscription.type"
    assert ShareDefaults().terms({name: "key_shared"}).is_keyed
    spaced = {
        name: " key_shared ",
        "share.isolation.level": " read_committed ",
        "share.renew.acknowledge.enable": " false ",
        "share.record.lock.duration.ms": " 20000 ",
    }  # configs are kept as they were sent
    assert ShareDefaults().terms(spaced) == (Reset("latest"), True, False, 20_000, True)
    assert not any(
        ShareDefaults().terms({name: word}).is_keyed for word in ("shared", "failover", "of a later release")
    )
