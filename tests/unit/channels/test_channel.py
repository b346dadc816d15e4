"""A channel: its defaults, its JSON, and one sentence for each thing that cannot be."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from bmq.channels.channel import (
    SCHEMA_BYTES_MAX,
    Acks,
    Channel,
    Compression,
    InvalidChannel,
    KeyBy,
    SchemaCheck,
    SpoolFull,
    channel_to_json,
    parse_channel,
)
from tests.unit.channels.channels import channel, channels

pytestmark = pytest.mark.unit


def test_what_a_channel_is_by_default() -> None:
    small = channel()
    assert (small.name, small.topic, small.enabled) == ("clicks", "shop.clicks", True)
    assert small.key.by is KeyBy.NONE
    assert (small.compression, small.acks) == (Compression.LZ4, Acks.ALL)
    assert (small.sampling_rate, small.rate_limit_records_per_s, small.rate_limit_bytes_per_s) == (1.0, None, None)
    assert (small.schema_check, small.spool_full) == (SchemaCheck.NONE, SpoolFull.REFUSE)


@given(channels())
def test_json_gives_the_same_channel(some: Channel) -> None:
    assert parse_channel(json.loads(json.dumps(channel_to_json(some)))) == some


@pytest.mark.parametrize(
    ("given_acks", "acks"),
    [("all", Acks.ALL), (-1, Acks.ALL), ("-1", Acks.ALL), (1, Acks.LEADER), ("1", Acks.LEADER), (0, Acks.NONE)],
)
def test_acks_in_each_form_of_kafkas_clients(given_acks: object, acks: Acks) -> None:
    assert channel(acks=given_acks).acks is acks


def test_a_path_is_a_text_with_dots_or_a_list() -> None:
    assert channel(key={"by": "json_path", "path": "user.id"}).key.path == ("user", "id")
    assert channel(key={"by": "json_path", "path": ["user.id"]}).key.path == ("user.id",)


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"colour": "red"}, "there is no key colour"),
        ({"name": "a b"}, "name: 'a b' is no such name: letters, digits, dots"),
        ({"name": "x" * 101}, "name: 'xxxx"),
        ({"name": "changes"}, "name: changes is a page of the REST API; choose another name"),
        ({"topic": None}, "topic: Input should be a valid string"),
        ({"topic": "a/b"}, "topic: 'a/b' is no such name"),
        ({"topic": ".."}, "topic: '..' is no topic's name"),
        ({"topic": "__consumer_offsets"}, "topic: __consumer_offsets is an internal topic"),
        ({"key": {"by": "color"}}, "key.by: Input should be 'none', 'header', 'json_path' or 'constant'"),
        ({"key": {"by": "header"}}, "key: a key by header needs header"),
        ({"key": {"header": "user"}}, "key: header is given, but the key is by none; set by to header"),
        ({"key": {"by": "json_path", "path": "a..b"}}, "key.path.1: String should have at least 1 character"),
        ({"key": {"by": "json_path", "path": ["a"] * 33}}, "key.path: Value should have at most 32 items"),
        ({"key": {"by": "constant", "constant": "é" * 600}}, "key.constant: it has more than 1024 bytes"),
        ({"key": {"by": "header", "header": "\ud800"}}, "key.header: Input should be a valid string, unable to parse"),
        ({"compression": "brotli"}, "compression: Input should be 'none', 'gzip', 'snappy', 'lz4' or 'zstd'"),
        ({"linger_ms": -1}, "linger_ms: Input should be greater than or equal to 0"),
        ({"linger_ms": "100"}, "linger_ms: Input should be a valid integer"),
        ({"batch_bytes": 1}, "batch_bytes: Input should be greater than or equal to 1024"),
        ({"acks": 2}, "acks: Input should be 'all', '1' or '0'"),
        ({"acks": True}, "acks: Input should be 'all', '1' or '0'"),
        ({"sampling_rate": 1.01}, "sampling_rate: Input should be less than or equal to 1"),
        ({"sampling_rate": float("nan")}, "sampling_rate: Input should be"),
        ({"rate_limit_records_per_s": 0}, "rate_limit_records_per_s: Input should be greater than or equal to 1"),
        ({"max_record_bytes": 2**30}, "max_record_bytes: Input should be less than or equal to 16777216"),
        ({"schema_check": "json_schema"}, "schema_check is json_schema, so json_schema must be given"),
        ({"json_schema": "{}"}, "json_schema is given, but schema_check is not json_schema"),
        ({"schema_check": "json_schema", "json_schema": "{"}, "json_schema: the schema is no JSON: "),
        ({"schema_check": "json_schema", "json_schema": "[]"}, "json_schema: a JSON Schema is a JSON object"),
        (
            {"schema_check": "json_schema", "json_schema": "[" * 60_000},
            "json_schema: the schema is nested too deep",
        ),
        (
            {"schema_check": "json_schema", "json_schema": "é" * (SCHEMA_BYTES_MAX // 2 + 1)},
            f"json_schema: the schema has {SCHEMA_BYTES_MAX + 2} bytes, {SCHEMA_BYTES_MAX} are allowed",
        ),
        ({"schema_check": "json_schema", "json_schema": "\ud800"}, "json_schema: Input should be a valid string"),
        ({"spool_full": "grow"}, "spool_full: Input should be 'refuse', 'drop_oldest' or 'drop_newest'"),
        ({"enabled": "yes"}, "enabled: Input should be a valid boolean"),
        ({"description": "\udfff"}, "description: Input should be a valid string, unable to parse"),
    ],
)
def test_what_cannot_be_is_one_sentence(changed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidChannel) as caught:
        channel(**changed)
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(InvalidChannel, match=r"^topic is missing$"):
        parse_channel({"name": "clicks"})
