"""The largest legal requests of every API at a real server, in real time: others are answered meanwhile, memory stays.

tests/simulation/test_largest_requests.py counts what a turn of the event loop costs; this one measures it once.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.messages.api_versions_request import ApiVersionsRequest
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from testing.servers import BmqServer, Server
from testing.wire import WireClient
from tests.e2e.conftest import assert_no_traceback
from tests.support.largest_requests import Known, largest_requests

pytestmark = [pytest.mark.campaign("bench"), pytest.mark.timeout(900)]

ELEMENTS: Final = 240_000
PARTITIONS: Final = 400
WAIT_MAX_S: Final = 0.1
"""How long another client's smallest request may wait, in all but one of a thousand."""
LONGEST_WAIT_S: Final = 1.0
"""However busy the machine is: connections are dropped after 5 s."""
GROWTH_BYTES_MAX: Final = 64 * 1024 * 1024
"""Also for what the server takes as it first does each thing. Its REST pages, which it loads once it is ready, are loaded before."""
_API_VERSIONS: Final = ApiVersionsRequest()
JOINS: Final = 60
ANSWER_S: Final = 120.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    made = BmqServer(tmp_path_factory.mktemp("largest") / "data")
    made.start()
    yield made
    made.close()
    assert_no_traceback(made)


class Neighbour:
    """Another client, which asks for the smallest thing again and again; `waits_s`: how long each answer took."""

    def __init__(self, server: Server) -> None:
        self.waits_s: list[float] = []
        self._frame = framed(encode_request(ApiKey.API_VERSIONS, 0, 1, "neighbour", _API_VERSIONS))
        self._client = WireClient(server.port, timeout_s=ANSWER_S)
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name="neighbour")
        self._thread.start()

    def _run(self) -> None:
        while not self._finish.is_set():
            began_s = time.monotonic()
            self._client.send_raw(self._frame)
            self._client.receive_frame()
            self.waits_s.append(time.monotonic() - began_s)
            self._finish.wait(0.002)

    def finish(self) -> None:
        self._finish.set()
        self._thread.join()
        self._client.close()


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def resident_bytes(server: Server, name: str) -> int:
    status = Path(f"/proc/{server.pid}/status").read_text()
    found = re.search(rf"^{name}:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def test_others_are_answered_and_memory_stays(server: BmqServer) -> None:
    with WireClient(server.port, timeout_s=ANSWER_S) as client:
        topic = CreatableTopic(name="t", num_partitions=PARTITIONS, replication_factor=1)
        made = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        client.send_raw(framed(encode_request(ApiKey.CREATE_TOPICS, 7, 1, "test", made)))
        _, created = decode_response(ApiKey.CREATE_TOPICS, 7, client.receive_frame())
    known = Known("t", created.topics[0].topic_id, PARTITIONS)
    assert server.get("/v1/topics")[0] == 200  # its pages are loaded
    before_bytes = resident_bytes(server, "VmRSS")
    neighbour = Neighbour(server)
    try:
        for api_key in APIS:
            if api_key in (ApiKey.PRODUCE, ApiKey.WRITE_TXN_MARKERS):  # the latter is 240,000 writes
                continue
            for one in largest_requests(api_key, known, ELEMENTS):
                if len(one.path) > 2 or not one.is_known:
                    continue  # it costs less than one that is sent
                with WireClient(server.port, timeout_s=ANSWER_S) as client:
                    client.send_raw(framed(encode_request(api_key, one.version, 1, "test", one.message)))
                    try:
                        client.receive_frame()
                    except ConnectionResetError as error:
                        raise AssertionError(f"{one.name}: the connection was closed") from error
        for number in range(JOINS):
            protocol = JoinGroupRequestProtocol(name="r", metadata=bytes(4 << 20))
            asked = JoinGroupRequest(
                group_id=f"g{number}",
                session_timeout_ms=1_800_000,
                rebalance_timeout_ms=1_800_000,
                protocol_type="consumer",
                protocols=[protocol],
            )
            with WireClient(server.port, timeout_s=ANSWER_S) as client:
                client.send_raw(framed(encode_request(ApiKey.JOIN_GROUP, 3, 1, "test", asked)))
                assert client.receive_frame()
    finally:
        neighbour.finish()
    waits_s = sorted(neighbour.waits_s)
    print("waits", len(waits_s), waits_s[-8:], "grown", resident_bytes(server, "VmHWM") - before_bytes)
    assert len(waits_s) > 1_000
    assert waits_s[-1] <= LONGEST_WAIT_S, waits_s[-5:]
    assert waits_s[len(waits_s) * 999 // 1_000] <= WAIT_MAX_S, waits_s[-10:]
    grown_bytes = resident_bytes(server, "VmHWM") - before_bytes
    assert grown_bytes <= GROWTH_BYTES_MAX, grown_bytes
