"""One connection to a server, by which requests of any version are asked: raw frames out, the answers' values back."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

from testing.wire import WireClient
from tests.conformance import codec
from tests.conformance.answers import CLOSED, NOTHING, SILENT
from tests.conformance.case import CLIENT_ID
from tests.conformance.schemas import API_VERSIONS

_PROBE_ID: Final = -7


class Asker:
    """`connect`: makes the connection when a request needs one. After a close or a timeout the next one is new."""

    def __init__(self, connect: Callable[[], WireClient]) -> None:
        self._connect = connect
        self._client: WireClient | None = None
        self._correlation_ids = itertools.count(1)

    def send(
        self, api_key: int, version: int, body: bytes, *, is_answered: bool = True, client_id: str | None = CLIENT_ID
    ) -> Mapping[str, Any]:
        """The answer's values, or one of CLOSED, SILENT, NOTHING."""
        frame = codec.framed(api_key, version, body, next(self._correlation_ids), client_id)
        try:
            if self._client is None:
                self._client = self._connect()
            self._client.send_raw(frame)
            if not is_answered:
                self._client.send_raw(codec.request_frame(API_VERSIONS, 0, {}, _PROBE_ID, CLIENT_ID))
                answer = self._client.receive_frame()
                return (
                    NOTHING if int.from_bytes(answer[:4], "big", signed=True) == _PROBE_ID else {"outcome": "answers"}
                )
            answer = self._client.receive_frame()
        except TimeoutError:
            self.close()
            return SILENT
        except (ConnectionError, EOFError):
            self.close()
            return CLOSED
        # An unknown version of ApiVersions is answered in the form of version 0.
        if api_key == API_VERSIONS and answer[4:6] == b"\0\x23":
            version = 0
        try:
            return codec.response_values(api_key, version, answer)
        except codec.Undecodable as error:
            return {"outcome": "answers what the schema does not describe", "why": str(error)}

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
