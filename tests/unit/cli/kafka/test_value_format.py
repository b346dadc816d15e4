"""Keys and values as text and as bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.value_format import PLAIN_CODECS, BadValue, ValueFormat, compact_json, parsed_json, text_of_value

pytestmark = pytest.mark.unit

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.binary(), st.sampled_from([ValueFormat.HEX, ValueFormat.BASE64]))
def test_any_bytes_survive_as_digits(data: bytes, value_format: ValueFormat) -> None:
    codec = PLAIN_CODECS[value_format]
    shown = codec.decode(data)
    assert codec.encode(shown) == codec.parse(text_of_value(shown)) == data


@given(st.text())
def test_any_text_survives(text: str) -> None:
    codec = PLAIN_CODECS[ValueFormat.TEXT]
    assert codec.decode(codec.parse(text)) == text
    assert codec.encode(codec.decode(text.encode())) == text.encode()


@given(st.binary())
def test_a_line_that_is_not_utf8_is_written_as_it_is(line: bytes) -> None:
    assert PLAIN_CODECS[ValueFormat.TEXT].parse(line.decode("utf-8", "surrogateescape")) == line


@given(JSON)
def test_json_survives_and_fits_a_line_of_utf8(value: Any) -> None:
    codec = PLAIN_CODECS[ValueFormat.JSON]
    assert codec.decode(codec.encode(value)) == value
    assert "\n" not in compact_json(value)
    assert codec.parse(json.dumps(value, indent=1)).decode() == json.dumps(value, indent=1)
    assert parsed_json(compact_json(value)) == value


@pytest.mark.parametrize(
    ("value_format", "text"),
    [
        (ValueFormat.JSON, "{"),
        (ValueFormat.JSON, "[" * 100_000),
        (ValueFormat.HEX, "0g"),
        (ValueFormat.HEX, "0"),
        (ValueFormat.BASE64, "a"),
        (ValueFormat.BASE64, "ä==="),
        (ValueFormat.TEXT, "\ud800"),
    ],
)
def test_what_is_not_of_the_format_is_refused(value_format: ValueFormat, text: str) -> None:
    with pytest.raises(BadValue) as refused:
        PLAIN_CODECS[value_format].parse(text)
    assert len(str(refused.value)) < 200


def test_bytes_that_are_not_text_are_shown() -> None:
    assert PLAIN_CODECS[ValueFormat.TEXT].decode(b"a\xff") == "a\\xff"
    assert compact_json("\ud800") == '"\\ud800"'
    with pytest.raises(BadValue, match="is not a string"):
        PLAIN_CODECS[ValueFormat.HEX].encode(1)
