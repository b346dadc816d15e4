"""The continuation token: where an answer ended, and up to which offsets all pages of its query look. Pure.

Later pages look no further than the first one did, so that a record that is indexed meanwhile neither appears twice nor moves
others. The token is text for the client to give back; one that was changed selects other rows, and opens nothing else.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any, Final

from bmq.dataclass import dataclass
from bmq.index.errors import QueryRefused
from bmq.index.query import Selection
from bmq.index.values import Value, json_of, value_of

_FORM: Final = 1
_JSON_BYTES_MAX: Final = 1024 * 1024
_OFFSET_MAX: Final = 2**63 - 1
_PARTITION_MAX: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Place:
    """The last row of an answer: its value in the order's column, and its position."""

    value: Value | None
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Continuation:
    """`ends`: each partition's first offset that no page looks at. `index_id`: of the index that the query was about."""

    index_id: str
    ends: Mapping[int, int]
    place: Place

    def to_text(self, selection: Selection) -> str:
        form = {
            "v": _FORM,
            "q": selection.fingerprint,
            "i": self.index_id,
            "e": [[partition, end] for partition, end in sorted(self.ends.items())],
            "p": [json_of(self.place.value), self.place.partition, self.place.offset],
        }
        packed = zlib.compress(json.dumps(form, separators=(",", ":")).encode())
        return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def continuation_of(text: str, selection: Selection, index_id: str) -> Continuation:
    """The inverse of `to_text`. Raises QueryRefused: damaged, of another query, or of another index."""
    try:
        form = _unpacked(text)
        if form["v"] != _FORM:
            raise QueryRefused("the continuation was made by another release; ask again without it")
        fingerprint, index, ends, (value, partition, offset) = form["q"], form["i"], form["e"], form["p"]
        found = Continuation(
            index,
            {_number(one, _PARTITION_MAX): _number(end, _OFFSET_MAX) for one, end in ends},
            Place(
                _order_value(value, selection),
                _number(partition, _PARTITION_MAX),
                _number(offset, _OFFSET_MAX),
            ),
        )
    except QueryRefused:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, zlib.error, RecursionError):
        raise QueryRefused(
            "the continuation is damaged; give it back as the answer had it, or ask without it"
        ) from None
    if fingerprint != selection.fingerprint:
        raise QueryRefused("the continuation belongs to another query; only limit and records may change between pages")
    if index != index_id:
        raise QueryRefused(
            "the index was dropped and made again since the last page; ask again without the continuation"
        )
    return found


def _order_value(given: Any, selection: Selection) -> Value | None:
    if given is None:
        return None
    if selection.order_type in ("float", "double"):  # rows may have what a query cannot give: NaN and infinity
        return float(given)
    return value_of(given, selection.order_type, selection.order_column)


def _unpacked(text: str) -> Any:
    packed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    unpacker = zlib.decompressobj()
    data = unpacker.decompress(packed, _JSON_BYTES_MAX)
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise ValueError("too long")
    return json.loads(data)


def _number(given: object, largest: int) -> int:
    if isinstance(given, bool) or not isinstance(given, int) or not 0 <= given <= largest:
        raise ValueError(given)
    return given
