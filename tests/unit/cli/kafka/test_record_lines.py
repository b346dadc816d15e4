"""Records as lines in both directions."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.record_lines import (
    LineForm,
    NewRecord,
    ReadRecord,
    csv_row,
    from_json_line,
    from_plain_line,
    json_line,
    numbered,
    table_cells,
)
from bmq.cli.kafka.value_format import PLAIN_CODECS, BadValue, ValueFormat

pytestmark = pytest.mark.unit

TEXT = PLAIN_CODECS[ValueFormat.TEXT]
JSON = PLAIN_CODECS[ValueFormat.JSON]
BASE64 = PLAIN_CODECS[ValueFormat.BASE64]
PLAIN = LineForm(TEXT, TEXT)
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)


@given(st.none() | st.binary(), st.none() | st.binary(), HEADERS, st.none() | st.integers(0, 2**62))
def test_a_json_line_is_written_again_as_it_was(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], timestamp_ms: int | None
) -> None:
    read = ReadRecord("t", 3, 7, timestamp_ms, key, value, headers)
    form = LineForm(BASE64, BASE64, keeps_partitions=True)
    line = json_line(read, BASE64, BASE64).encode()
    assert b"\n" not in line
    assert from_json_line(line, form) == NewRecord(key, value, tuple(headers), 3, timestamp_ms)
    assert from_json_line(line, replace(form, keeps_partitions=False)).partition is None


def test_plain_lines() -> None:
    form = replace(PLAIN, key_separator="::", null_value="NULL", headers=[("h", b"1")], partition=2, timestamp_ms=5)
    assert from_plain_line(b"k::v::w", form) == NewRecord(b"k", b"v::w", [("h", b"1")], 2, 5)
    assert from_plain_line(b"::NULL", form).value is None
    assert from_plain_line(b"\xff", replace(PLAIN, key="all")) == NewRecord(b"all", b"\xff")
    with pytest.raises(BadValue, match="there is no '::' between a key and a value"):
        from_plain_line(b"k:v", form)
    assert list(numbered([b"a\r\n", b"\n", b"b"])) == [(1, b"a"), (2, b""), (3, b"b")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "is not JSON"),
        (b"[]", 'not an object with a "value"'),
        (b'{"key":"a"}', 'not an object with a "value"'),
        (b'{"value":"a","vale":1}', '"vale" is not known'),
        (b'{"value":"a","timestamp_ms":-1}', "timestamp_ms -1 is no number"),
        (b'{"value":"a","timestamp_ms":true}', "timestamp_ms true is no number"),
        (b'{"value":"a","timestamp_ms":1e3}', "is no number"),
        (b'{"value":"a","headers":{"a":"b"}}', "no list of pairs"),
        (b'{"value":"a","headers":[["a"]]}', "a header is not"),
        (b'{"value":"a","headers":[["a",1]]}', "a header is not"),
        (b'{"value":"a","headers":[["a",{"base64":"x"}]]}', "is not base64"),
        (b'{"value":"\\ud800"}', "surrogate"),
    ],
)
def test_a_json_line_that_cannot_be_meant_is_refused(line: bytes, why: str) -> None:
    with pytest.raises(BadValue, match=why):
        from_json_line(line, PLAIN)


def test_json_values_stand_in_the_line_as_they_are() -> None:
    read = ReadRecord("t", 0, 1, None, b"k", b'{"a": [1, "\xc3\xa9"]}')
    line = json.loads(json_line(read, TEXT, JSON))
    assert (line["value"], line["timestamp"], line["timestamp_ms"]) == ({"a": [1, "é"]}, None, None)
    assert from_json_line(json.dumps(line).encode(), LineForm(TEXT, JSON)).value == '{"a":[1,"é"]}'.encode()
    assert from_json_line(b'{"value":{"a":1}}', PLAIN).value == b'{"a":1}', "text takes what JSON it is given"


def test_cells_and_columns() -> None:
    read = ReadRecord("t", 0, 1, 1_700_000_000_000, None, b"v\x1b", [("h", None), ("i", b"\xff")])
    assert table_cells(read, TEXT, TEXT) == ["t-0", "1", "2023-11-14T22:13:20.000Z", "-", "v\x1b", "h=- i=\\xff"]
    odd = replace(read, headers=[("\udcff", b"1")])
    assert table_cells(odd, TEXT, TEXT)[5] == "\\xff=1", "no terminal takes a surrogate"
    assert csv_row(read, TEXT, TEXT)[4:] == ["", "v\x1b", '[["h",null],["i",{"base64":"/w=="}]]']
    with pytest.raises(BadValue, match=r"the value of t-0 offset 1: .* is not JSON"):
        table_cells(read, TEXT, JSON)
    with pytest.raises(BadValue, match="the key of t-0 offset 1"):
        json_line(replace(read, key=b"{"), JSON, TEXT)
