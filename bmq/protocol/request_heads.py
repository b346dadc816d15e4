"""Request headers of one connection: the unchanging part is compared with the last one instead of parsed.

Headers of requests with the same API and version differ only in their correlation id: the client id is the same, and
there are no tagged fields.
"""

from __future__ import annotations

from functools import partial
from struct import Struct
from typing import Final

from bmq.protocol.codec import CORRELATION_END, RequestHeader, parse_request_header

KINDS_MAX: Final = 64
"""Pairs of API and version to remember: no client uses more."""
SAID_BYTES_MAX: Final = 256
_KIND_BYTES: Final = 4  # API and version
_CORRELATION_ID: Final = Struct(">i")

_header_of = partial(tuple.__new__, RequestHeader)  # from the fields in order, at half the cost of calling the class


class RequestHeads:
    """The request headers of one connection."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[bytes, int, int, str | None, int]] = {}  # the last header by API and version

    @property
    def count(self) -> int:
        return len(self._known)

    def parse(self, frame: bytearray) -> RequestHeader:
        """Like parse_request_header. Raises MalformedMessage."""
        kind = bytes(frame[:_KIND_BYTES])
        known = self._known.get(kind)
        if known is not None:
            said, api_key, api_version, client_id, body_position = known
            if frame.startswith(said, CORRELATION_END):
                (correlation_id,) = _CORRELATION_ID.unpack_from(frame, _KIND_BYTES)
                return _header_of((api_key, api_version, correlation_id, client_id, body_position))
        header = parse_request_header(frame)
        said = bytes(frame[CORRELATION_END : header.body_position])
        if len(said) <= SAID_BYTES_MAX and (known is not None or len(self._known) < KINDS_MAX):
            self._known[kind] = (said, header.api_key, header.api_version, header.client_id, header.body_position)
        return header
