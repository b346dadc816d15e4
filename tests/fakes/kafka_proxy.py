"""A proxy that says what a test wants: it speaks the protocol, and answers each API with a function of the test's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode_request, encode_response, parse_request_header
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.api_versions_response import ApiVersion, ApiVersionsResponse
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.messages.fetch_response import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from bmq.protocol.messages.list_offsets_request import ListOffsetsRequest
from bmq.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from bmq.protocol.record_batch import BatchHeader
from bmq.spark.source.loop_thread import LoopThread

EARLIEST: Final = -2

Answer = Callable[[Any], Any]


class FakeProxy:
    """A context manager. An API without an answer closes the connection. `requests`: what it was asked, in order."""

    def __init__(self, answers: Mapping[ApiKey, Callable[[Any], Any]]) -> None:
        self.answers = answers
        self.requests: list[Any] = []
        self.port = 0
        self._loop = LoopThread()

    def __enter__(self) -> FakeProxy:
        self._loop.__enter__()
        self._server = self._loop.run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._stop())
        self._loop.__exit__()

    async def _start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _stop(self) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, KeyError, asyncio.CancelledError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
                header = parse_request_header(frame)
                request = decode_request(header, frame)
                if header.api_key == ApiKey.API_VERSIONS:
                    response = _api_versions()
                else:
                    self.requests.append(request)
                    response = self.answers[ApiKey(header.api_key)](request)
                answer = encode_response(header.api_key, header.api_version, header.correlation_id, response)
                writer.write(len(answer).to_bytes(4) + answer)
        writer.close()


def _api_versions() -> ApiVersionsResponse:
    return ApiVersionsResponse(
        api_keys=[
            ApiVersion(api_key=key, min_version=api.advertised_min, max_version=api.version_max)
            for key, api in APIS.items()
        ]
    )


class FakeLog:
    """One partition's batches as a proxy serves them, a few at a time. `aborted`: (producer id, first, last offset)."""

    def __init__(
        self,
        batches: Sequence[bytes],
        *,
        log_start_offset: int = 0,
        aborted: Sequence[tuple[int, int, int]] = (),
        batches_max: int = 2,
    ) -> None:
        self.batches = [(BatchHeader.parse(batch), bytes(batch)) for batch in batches]
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        self.batches_max = batches_max
        self.answers: dict[ApiKey, Answer] = {ApiKey.FETCH: self.fetch, ApiKey.LIST_OFFSETS: self.list_offsets}

    @property
    def end_offset(self) -> int:
        return self.batches[-1][0].end_offset if self.batches else self.log_start_offset

    def fetch(self, request: FetchRequest) -> FetchResponse:
        topic = request.topics[0]
        wanted = topic.partitions[0]
        offset = wanted.fetch_offset
        found = PartitionData(
            partition_index=wanted.partition,
            high_watermark=self.end_offset,
            last_stable_offset=self.end_offset,
            log_start_offset=self.log_start_offset,
        )
        if not self.log_start_offset <= offset <= self.end_offset:
            found.error_code = ErrorCode.OFFSET_OUT_OF_RANGE
        else:
            taken = [one for one in self.batches if one[0].end_offset > offset][: self.batches_max]
            found.records = b"".join(batch for _, batch in taken)
            end = taken[-1][0].end_offset if taken else offset
            if request.isolation_level:
                found.aborted_transactions = [
                    AbortedTransaction(producer_id=producer_id, first_offset=first)
                    for producer_id, first, last in self.aborted
                    if last >= offset and first < end
                ]
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[found])]
        )

    def list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=one.partition_index,
                            offset=self.log_start_offset if one.timestamp == EARLIEST else self.end_offset,
                        )
                        for one in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )
