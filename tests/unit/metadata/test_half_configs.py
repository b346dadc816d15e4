"""Topic configs of half messages."""

from __future__ import annotations

import pytest

from bmq.metadata.config_keys import InvalidConfig
from bmq.metadata.half_configs import BadCheckUrl, CheckUrl, check_url
from bmq.metadata.topic_configs import log_config, validate

pytestmark = pytest.mark.unit


def test_half_messages_are_off_by_default_and_reach_the_log() -> None:
    off = log_config({}, {})
    assert not off.is_half_enabled and not off.holds_records
    assert (off.half_check_first_ms, off.half_check_interval_ms, off.half_checks_max) == (6_000, 30_000, 15)
    config = log_config(
        {
            "bmq.half.enable": "true",
            "bmq.half.check.first.ms": "100",
            "bmq.half.check.interval.ms": "1000",
            "bmq.half.check.max": "3",
            "bmq.half.check.url": "https://orders.example/check",
            "bmq.half.given.up.topic": "lost.orders",
        },
        {},
    )
    assert config.is_half_enabled and config.holds_records
    assert (config.half_check_first_ms, config.half_check_interval_ms, config.half_checks_max) == (100, 1000, 3)
    assert (config.half_check_url, config.half_check_topic, config.half_given_up_topic) == (
        "https://orders.example/check",
        "",
        "lost.orders",
    )


@pytest.mark.parametrize(
    ("configs", "words"),
    [
        ({"bmq.half.enable": "true", "cleanup.policy": "compact"}, r"cleanup\.policy must be delete"),
        ({"bmq.half.enable": "true", "bmq.retry.levels": "1s,5s"}, "do not go together"),
        ({"bmq.half.check.url": "http://a/", "bmq.half.check.topic": "b"}, "are both set"),
        ({"bmq.half.check.max": "0"}, "bmq.half.check.max"),
        ({"bmq.half.check.first.ms": "99"}, "bmq.half.check.first.ms"),
        ({"bmq.half.check.interval.ms": "999"}, "bmq.half.check.interval.ms"),
        ({"bmq.half.check.topic": "a/b"}, "bmq.half.check.topic"),
        ({"bmq.half.given.up.topic": "__consumer_offsets"}, "internal topics"),
        ({"bmq.half.check.url": "http://169.254.169.254/latest"}, "metadata services"),
    ],
)
def test_what_a_topic_may_not_have(configs: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfig, match=words):
        validate(configs, {})


def test_urls() -> None:
    assert check_url("http://Orders.example/a?b=c") == CheckUrl("http", "orders.example", 80)
    assert check_url("https://127.0.0.1:8443") == CheckUrl("https", "127.0.0.1", 8443)
    assert check_url("https://[::1]/x") == CheckUrl("https", "::1", 443)


@pytest.mark.parametrize(
    "text",
    [
        "ftp://a/",
        "file:///etc/passwd",
        "a",
        "http://",
        "http://user@a/",
        "http://u:p@a/",
        "http://a/#b",
        "http://a b/",
        "http://a\n/",
        "http://a:99999/",
        "http://a:x/",
        "http://[::1",
        "http://169.254.169.254/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "http://224.0.0.1/",
        "http://a/" + "x" * 1000,
    ],
)
def test_urls_that_no_check_goes_to(text: str) -> None:
    with pytest.raises(BadCheckUrl):
        check_url(text)
