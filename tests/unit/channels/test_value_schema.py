"""What a channel's check says of values and of schemas."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from bmq.channels.channel import Channel, InvalidChannel
from bmq.channels.value_schema import SchemaCheckMissing, ValueCheck
from tests.unit.channels.channels import channel

pytestmark = pytest.mark.unit

CLICK = {
    "type": "object",
    "properties": {"user": {"type": "object", "properties": {"id": {"type": "integer"}}}, "page": {"pattern": "^/"}},
    "required": ["page"],
}


def with_schema(schema: Any) -> Channel:
    return channel(schema_check="json_schema", json_schema=json.dumps(schema))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (b'{"page": "/a", "user": {"id": 7}}', None),
        (b'{"user": {"id": 7}}', 'by the channel\'s schema, "page" is a required property'),
        (
            b'{"page": "/a", "user": {"id": "secret"}}',
            'by the channel\'s schema, the value is not of type "integer" at user.id',
        ),
        (b'{"page": "x"}', 'by the channel\'s schema, the value does not match "^/" at page'),
        (b"{", "the value is no JSON"),
        (b'"\xff"', "the value is no JSON"),
        (b"[" * 100_000, "the value is nested too deep"),
        (None, "the record has no value, and the channel takes JSON"),
    ],
)
def test_values(value: bytes | None, problem: str | None) -> None:
    assert ValueCheck(with_schema(CLICK)).problem_of(value) == problem


def test_channels_without_a_schema() -> None:
    anything, any_json = ValueCheck(channel()), ValueCheck(channel(schema_check="json"))
    assert (anything.problem_of(b"{"), anything.problem_of(None)) == (None, None)
    assert (any_json.problem_of(b"[1]"), any_json.problem_of(b"[")) == (None, "the value is no JSON")


def test_a_pattern_takes_linear_time() -> None:
    slow_elsewhere = ValueCheck(with_schema({"pattern": "^(a+)+$"}))
    value = json.dumps("a" * 100_000 + "b").encode()
    assert slow_elsewhere.problem_of(value) == 'by the channel\'s schema, the value does not match "^(a+)+$"'


@pytest.mark.parametrize(
    ("schema", "sentence"),
    [
        ({"type": "objekt"}, "json_schema: the value is not valid under any of the schemas listed in the 'anyOf'"),
        ({"properties": {"a": {"pattern": "(a"}}}, 'json_schema: the value is not a "regex" at properties.a.pattern'),
        ({"$ref": "#/nope"}, "json_schema: Pointer '/nope' does not exist"),
        ({"$ref": "http://127.0.0.1/x.json"}, "json_schema: Resource 'http://127.0.0.1/x.json' is not present"),
        ({"$ref": "file:///etc/passwd"}, "json_schema: Resource 'file:///etc/passwd' is not present"),
        ({"$schema": "http://none.example/draft"}, "json_schema: Unknown meta-schema"),
    ],
)
def test_what_is_no_schema_is_one_sentence(schema: Any, sentence: str) -> None:
    with pytest.raises(InvalidChannel) as caught:
        ValueCheck(with_schema(schema))
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_without_the_package_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    assert ValueCheck(channel(schema_check="json")).problem_of(b"1") is None
    with pytest.raises(SchemaCheckMissing, match="JSON Schemas cannot be checked here: install jsonschema-rs with `"):
        ValueCheck(with_schema({}))
