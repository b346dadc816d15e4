"""Records as JSON: text where bytes are UTF-8, else base64."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.rest.problems import ProblemError
from bmq.protocol.batch_records import Record

HEADERS_SHOWN_MAX: Final = 100
HEADER_BYTES_MAX: Final = 4 * 1024
KEY_BYTES_MAX: Final = 64 * 1024
_UTF8_BYTES_MAX: Final = 4


class BytesView(BaseModel):
    """Bytes of a record: in `text` if they are UTF-8, else in `base64`. `is_cut`: only the first of `size_bytes` are here."""

    text: str | None = None
    base64: str | None = None
    size_bytes: int
    is_cut: bool = False


class HeaderView(BaseModel):
    """`value`: null for a header without one."""

    name: str
    value: BytesView | None


class RecordView(BaseModel):
    """`timestamp_ms`: milliseconds since 1970, in UTC; -1: none. `key`, `value`: null where the record has none.

    `header_count`: of all headers; the first 100 are here.
    """

    partition: int
    offset: int
    timestamp_ms: int
    key: BytesView | None
    value: BytesView | None
    headers: list[HeaderView]
    header_count: int


class BytesForm(BaseModel):
    """Either `text` or `base64`."""

    model_config = ConfigDict(extra="forbid")

    text: str | None = None
    base64: Annotated[str | None, Field(pattern="^[A-Za-z0-9+/]*={0,2}$")] = None

    def content(self, place: str) -> bytes:
        """The bytes. `place`: names them in the sentence. Raises ProblemError."""
        if (self.text is None) == (self.base64 is None):
            raise ProblemError(422, f"{place}: give `text` or `base64`, and not both")
        if self.text is not None:
            try:
                return self.text.encode()
            except UnicodeEncodeError:
                raise ProblemError(422, f"{place}.text: half of a surrogate pair is no unicode text") from None
        try:
            return b64decode(self.base64 or "", validate=True)
        except Base64Error as error:
            raise ProblemError(422, f"{place}.base64: {error}") from error


def bytes_view(content: bytes | None, bytes_max: int) -> BytesView | None:
    """The first bytes, up to a limit; text is cut between two characters."""
    if content is None:
        return None
    shown, size_bytes = content[:bytes_max], len(content)
    is_cut = size_bytes > bytes_max
    text = _text(shown, is_cut=is_cut)
    if text is not None:
        return BytesView(text=text, size_bytes=size_bytes, is_cut=is_cut)
    return BytesView(base64=b64encode(shown).decode(), size_bytes=size_bytes, is_cut=is_cut)


def record_view(partition: int, record: Record, value_bytes_max: int) -> RecordView:
    """The record with at most so many bytes of its value."""
    return RecordView(
        partition=partition,
        offset=record.offset,
        timestamp_ms=record.timestamp_ms,
        key=bytes_view(record.key, KEY_BYTES_MAX),
        value=bytes_view(record.value, value_bytes_max),
        headers=[
            HeaderView(name=_printable(name)[:HEADER_BYTES_MAX], value=bytes_view(value, HEADER_BYTES_MAX))
            for name, value in record.headers[:HEADERS_SHOWN_MAX]
        ],
        header_count=len(record.headers),
    )


def _text(content: bytes, *, is_cut: bool) -> str | None:
    """None: it is not UTF-8."""
    for dropped in range(_UTF8_BYTES_MAX if is_cut else 1):
        try:
            return content[: len(content) - dropped].decode()
        except UnicodeDecodeError:
            continue
    return None


def _printable(name: str) -> str:
    """Header names that are not UTF-8 hold surrogates, which JSON in UTF-8 cannot have."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
