"""How far five requests walk through bmq, and through an earlier revision: `python -m bench.micro_walks [OLD]`.

One server with nothing configured answers each request eight times after four that warm it. Counted are the files of bmq
that are entered each time, and the fewest calls of functions. Nothing is timed.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from os import kill
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode_response, encode_request
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from bmq.protocol.messages.heartbeat_request import HeartbeatRequest
from bmq.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from bmq.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from bmq.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from bmq.protocol.messages.sync_group_request import SyncGroupRequest
from testing.processes import REPOSITORY, ManagedProcess, eventually, free_port
from testing.revisions import checked_out
from testing.wire import WireClient

_RECORDER: Final = Path(__file__).with_name("walk_recorder.py")
_WARMING: Final = 4
_ROUNDS: Final = 8
_WAIT_S: Final = 60
_TOPIC: Final = "t0"

Make = Callable[[int], Any]


class Walk(NamedTuple):
    """`files`: of bmq, entered in each round. `calls`: of functions, in the round with the fewest."""

    files: int
    calls: int


class RecordedServer:
    """A standalone server of a tree under the recorder, and a connection to it."""

    def __init__(self, tree: Path, directory: Path) -> None:
        port, rest = free_port(), free_port()
        arguments = ["standalone", "--data", str(directory / "data"), "--listen", f"127.0.0.1:{port}"]
        self._record = directory / "walk.json"
        self._begun = directory / "walk.json.begun"
        self._process = ManagedProcess(
            "bmq",
            [sys.executable, "-P", str(_RECORDER), *arguments, "--rest", f"127.0.0.1:{rest}"],
            directory / "server.log",
            {"PYTHONPATH": str(tree), "BMQ_WALK": str(self._record)},
        )
        self._process.start()
        self._process.wait_for_line("^bmq ready", _WAIT_S)
        self._client = WireClient(port)

    def close(self) -> None:
        self._client.close()
        self._process.stop()

    def ask(self, api_key: ApiKey, version: int, request: Any) -> Any:
        self._client.send_raw(_framed(encode_request(api_key, version, 1, "walks", request)))
        return decode_response(api_key, version, self._client.receive_frame())[1]

    def walk(self, api_key: ApiKey, version: int, make: Make) -> Walk:
        """Of a request that `make` makes anew for each round, and that is answered without an error."""
        rounds = []
        for number in range(_WARMING + _ROUNDS):
            request = make(number)
            if number < _WARMING:
                self.ask(api_key, version, request)
                continue
            self._begun.unlink(missing_ok=True)
            self._record.unlink(missing_ok=True)
            kill(self._process.pid, signal.SIGUSR1)
            eventually(self._begun.exists, _WAIT_S, "the recorder begins", 0.01)
            self.ask(api_key, version, request)
            kill(self._process.pid, signal.SIGUSR2)
            eventually(self._record.exists, _WAIT_S, "the recorder ends", 0.01)
            rounds.append(json.loads(self._record.read_text()))
        return Walk(len(set.intersection(*map(set, rounds))), min(sum(one.values()) for one in rounds))


def walks(server: RecordedServer) -> dict[str, Walk]:
    """By the names of the requests; versions that servers have had since the first one."""
    found = {"CreateTopics": server.walk(ApiKey.CREATE_TOPICS, 6, _topic)}
    found["Produce"] = server.walk(ApiKey.PRODUCE, 9, _record)
    found["Fetch"] = server.walk(ApiKey.FETCH, 11, _fetch)
    # The first commit makes the topic of offsets.
    eventually(lambda: _is_committed(server), _WAIT_S, "the group's coordinator is ready")
    found["OffsetCommit"] = server.walk(ApiKey.OFFSET_COMMIT, 8, _commit)
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(10))]
    joining = JoinGroupRequest(
        group_id="h",
        session_timeout_ms=30_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols=protocols,
    )
    joined = server.ask(ApiKey.JOIN_GROUP, 3, joining)
    member = {"group_id": "h", "generation_id": joined.generation_id, "member_id": joined.member_id}
    server.ask(ApiKey.SYNC_GROUP, 2, SyncGroupRequest(assignments=[], **member))
    found["Heartbeat"] = server.walk(ApiKey.HEARTBEAT, 3, lambda number: HeartbeatRequest(**member))
    return found


@contextmanager
def recorded_server(tree: Path) -> Iterator[RecordedServer]:
    with TemporaryDirectory(prefix="bmq-walks-") as directory:
        server = RecordedServer(tree, Path(directory))
        try:
            yield server
        finally:
            server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("revision", metavar="OLD", nargs="?")
    given = parser.parse_args()
    before: dict[str, Walk] = {}
    if given.revision is not None:
        with checked_out(given.revision) as tree, recorded_server(tree) as server:
            before = walks(server)
    with recorded_server(REPOSITORY) as server:
        now = walks(server)
    print("request           files   before    calls   before")
    for name, walk in now.items():
        old = before.get(name)
        files, calls = ("-", "-") if old is None else old
        print(f"{name:<16}{walk.files:>7}{files:>9}{walk.calls:>9}{calls:>9}")


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def _topic(number: int) -> CreateTopicsRequest:
    topic = CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1, assignments=[], configs=[])
    return CreateTopicsRequest(topics=[topic], timeout_ms=30_000)


def _record(number: int) -> ProduceRequest:
    data = [PartitionProduceData(index=0, records=bytes(encode_batch([Record(None, b"v")])))]
    topics = [TopicProduceData(name=_TOPIC, partition_data=data)]
    return ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics)


def _fetch(number: int) -> FetchRequest:
    part = FetchPartition(partition=0, fetch_offset=3, partition_max_bytes=1 << 20)
    topics = [FetchTopic(topic=_TOPIC, partitions=[part])]
    return FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)


def _commit(number: int) -> OffsetCommitRequest:
    part = OffsetCommitRequestPartition(partition_index=0, committed_offset=number, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=_TOPIC, partitions=[part])]
    return OffsetCommitRequest(group_id="g", topics=topics)


def _is_committed(server: RecordedServer) -> bool:
    answer = server.ask(ApiKey.OFFSET_COMMIT, 8, _commit(0))
    return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


if __name__ == "__main__":
    main()
