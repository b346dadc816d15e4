"""What a channel's configuration does to a record, and rate limits."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.channels.channel import Channel
from bmq.databus.rate_limit import RateLimit
from bmq.databus.record_fields import NO_HEADERS, encoded_headers
from bmq.databus.rules import ChannelCounts, CompiledChannel, LaneKey, compiled
from bmq.databus.socket_frame import Code
from tests.unit.databus.agents import channel, channels

pytestmark = pytest.mark.unit

SCHEMA = json.dumps({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}})


def rules(given: Channel) -> CompiledChannel:
    return CompiledChannel(given, ChannelCounts())


def test_an_application_keeps_its_key_without_a_rule() -> None:
    assert rules(channel()).key_of(b"own", b"v", NO_HEADERS) == b"own"


@pytest.mark.parametrize(
    ("value", "key"),
    [
        (b'{"user": {"id": "u1"}}', b"u1"),
        (b'{"user": {"id": 7}}', b"7"),
        (b'{"user": {"id": {"a": [1, null]}}}', b'{"a":[1,null]}'),
        (b'{"user": {"id": null}}', None),
        (b'{"user": 1}', None),
        (b"[]", None),
        (b"no json", None),
        (b"[" * 100_000, None),
        (None, None),
    ],
)
def test_a_key_from_a_field_of_the_value(value: bytes | None, key: bytes | None) -> None:
    assert rules(channel(key={"by": "json_path", "path": "user.id"})).key_of(b"own", value, NO_HEADERS) == key


def test_a_field_that_is_too_deep_to_be_written_is_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_deep(*_: object, **__: object) -> str:
        raise RecursionError

    made = rules(channel(key={"by": "json_path", "path": "user"}))
    monkeypatch.setattr("bmq.databus.rules.json.dumps", too_deep)
    assert made.key_of(b"own", b'{"user": [1]}', NO_HEADERS) is None


def test_a_key_from_a_header_or_a_constant() -> None:
    by_header = rules(channel(key={"by": "header", "header": "k"}))
    assert by_header.key_of(b"own", b"v", encoded_headers([("x", b"1"), ("k", b"2"), ("k", b"3")])) == b"2"
    assert by_header.key_of(b"own", b"v", NO_HEADERS) is None
    assert rules(channel(key={"by": "constant", "constant": "all"})).key_of(None, b"v", NO_HEADERS) == b"all"


def test_a_disabled_channel_and_a_large_record_are_refused() -> None:
    disabled = rules(channel(enabled=False)).refusal(1, b"v")
    assert disabled is not None
    assert disabled.code is Code.CHANNEL_DISABLED
    large = rules(channel(max_record_bytes=10)).refusal(11, b"v")
    assert large is not None
    assert large == (Code.RECORD_TOO_LARGE, "the record has 11 bytes, the channel c allows 10", 0)
    assert rules(channel(max_record_bytes=10)).refusal(10, b"v") is None


@pytest.mark.parametrize(
    ("value", "is_taken"), [(b'{"id": 1}', True), (b'{"id": "secret-1"}', False), (b"{}", False), (b"x", False)]
)
def test_a_value_is_checked_by_a_schema_and_not_shown(value: bytes, is_taken: bool) -> None:
    refusal = rules(channel(schema_check="json_schema", json_schema=SCHEMA)).refusal(10, value)
    assert (refusal is None) == is_taken
    if refusal is not None:
        assert refusal.code is Code.BAD_VALUE
        assert "secret" not in refusal.sentence


def test_a_value_is_checked_to_be_json() -> None:
    checked = rules(channel(schema_check="json"))
    assert checked.refusal(2, b"{}") is None
    refusal = checked.refusal(2, b"{")
    assert refusal is not None
    assert refusal.code is Code.BAD_VALUE


def test_a_schema_that_cannot_be_used_refuses_the_channel_with_a_sentence() -> None:
    made = rules(channel(schema_check="json_schema", json_schema='{"type": "nonsense"}'))
    assert made.fault.startswith("the channel c cannot be used: ")


def test_lanes_are_by_compression_and_by_what_may_be_dropped() -> None:
    assert rules(channel(compression="zstd")).lane == LaneKey("zstd", False)
    assert rules(channel(spool_full="drop_oldest")).lane.name == "lz4-droppable"


def test_unchanged_channels_and_limits_go_on() -> None:
    counts: dict[str, ChannelCounts] = {}

    def counts_of(name: str) -> ChannelCounts:
        return counts.setdefault(name, ChannelCounts())

    first = compiled(channels(channel("a"), channel("b", rate_limit_records_per_s=5)), {}, counts_of)
    altered = channels(channel("a"), channel("b", rate_limit_records_per_s=5, topic="u"), channel("d"))
    second = compiled(altered, first, counts_of)
    assert second[b"a"] is first[b"a"]
    assert second[b"b"] is not first[b"b"]
    assert second[b"b"].limit is first[b"b"].limit
    assert second[b"b"].counts is first[b"b"].counts
    assert set(compiled(channels(), second, counts_of)) == set()


def test_a_rate_of_records_holds_over_any_time() -> None:
    limit = RateLimit(10, None)
    taken = sum(limit.wait_s(1, 0, 100 + tick / 100) == 0 for tick in range(500))
    assert 10 + 49 <= taken <= 10 + 51  # the second that is saved up, and five seconds


def test_a_rate_of_bytes_lets_one_record_be_larger_than_a_second() -> None:
    limit = RateLimit(None, 100)
    assert limit.wait_s(1, 250, 0.0) == 0
    assert 1.4 < limit.wait_s(1, 1, 0.1) < 1.6
    assert limit.wait_s(1, 1, 1.7) == 0


@given(steps=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 500), st.floats(-5, 5)), max_size=40))
def test_a_clock_that_jumps_never_gives_more_than_the_limit(steps: list[tuple[int, int, float]]) -> None:
    limit = RateLimit(10, 1_000)
    now_s, forward_s, records = 0.0, 0.0, 0
    for count, length, step_s in steps:
        now_s += step_s
        forward_s += max(0.0, step_s)
        wait_s = limit.wait_s(count, length, now_s)
        assert 0 <= wait_s <= 60
        records += count if wait_s == 0 else 0
    assert records <= 10 + 10 * forward_s + 20
