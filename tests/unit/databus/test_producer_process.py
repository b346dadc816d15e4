"""A lane's transactions in another process: the same answers, and what becomes of a process that ends or hangs."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from bmq.databus.lanes import producer_main
from bmq.databus.lanes.kafka_transactions import TransactionConfig
from bmq.databus.lanes.producer_messages import Add, Close, Commit, Failed, Refused, Start, Started
from bmq.databus.lanes.producer_process import ProducerProcess
from bmq.databus.lanes.transactions import SendFailed, TopicRefusal, TopicsRefused
from testing.patience import Patience
from testing.processes import dying_with_us
from tests.unit.databus.agents import Cluster, FakeTransactions
from tests.unit.databus.spools import fill, frame, open_spool, reader_of

pytestmark = pytest.mark.unit

CONFIG = TransactionConfig({"bootstrap.servers": "127.0.0.1:1"}, "id", "group", "lz4", 1_000_000)
WAIT_S = 20
Maker = Callable[..., ProducerProcess]

# A process whose cluster is the file of its first argument: a line for each commit.
FAKE = """
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from bmq.databus.lanes.producer_main import serve
from bmq.databus.lanes.transactions import SendFailed, TopicRefusal, TopicsRefused

class Transactions:
    def __init__(self, config):
        self.landed, self.values = Path(sys.argv[1]), []
    def start(self, batch_bytes):
        return len(self.landed.read_text().splitlines())
    def add(self, records):
        self.values += [record.value.decode() for record in records]
    def commit(self, position):
        values, self.values = self.values, []
        if "away" in values:
            raise SendFailed("the cluster is away")
        if "refused" in values:
            raise TopicsRefused({"t": TopicRefusal("a record is wrong", is_of_a_record=True)})
        if "crash" in values:
            sys.exit(7)
        if "hang" in values:
            sys.stdin = open(sys.argv[1] + ".fifo")
        with self.landed.open("a") as file:
            file.write(f"{position} {values}\\n")
    def close(self):
        pass

serve(Connection(int(sys.argv[2])), Transactions)
"""

# It is in the call when it tells the id of its process.
AGENT = """
import threading
from bmq.databus.lanes.kafka_transactions import TransactionConfig
from bmq.databus.lanes.producer_process import ProducerProcess

one = ProducerProcess(TransactionConfig({"bootstrap.servers": "127.0.0.1:1"}, "id", "group", "lz4", 1_000_000))
one._begin()
threading.Timer(0.5, lambda: print(one._process.pid, flush=True)).start()
while True:
    try:
        one.start(1_000)
    except Exception:
        pass
"""


@pytest.fixture
def landed(tmp_path: Path) -> Path:
    path = tmp_path / "landed"
    path.touch()
    os.mkfifo(f"{path}.fifo")
    return path


@pytest.fixture
def make(landed: Path) -> Iterator[Maker]:
    made: list[ProducerProcess] = []

    def maker(**more: Any) -> ProducerProcess:
        made.append(ProducerProcess(CONFIG, command=[sys.executable, "-c", FAKE, str(landed)], **more))
        return made[-1]

    yield maker
    for one in made:
        one.end()


def records_of(tmp_path: Path, *values: bytes) -> Any:
    spool = open_spool(tmp_path / f"spool-{values[0].decode()}")
    for number, value in enumerate(values):
        fill(spool, range(number, number + 1), value)
    return reader_of(spool).read(1 << 20, 100)


def commit(transactions: ProducerProcess, records: Any, position: int) -> None:
    transactions.add(records)
    transactions.commit(position)


def test_records_and_position_arrive_in_the_process(make: Maker, landed: Path, tmp_path: Path) -> None:
    transactions = make()
    assert transactions.start(1_000) == 0
    commit(transactions, records_of(tmp_path, b"a", b"b"), 2)
    transactions.close()
    assert transactions.start(2_000) == 1
    assert landed.read_text() == "2 ['a', 'b']\n"


def test_failures_and_refusals_are_those_of_the_process(make: Maker, tmp_path: Path) -> None:
    transactions = make()
    transactions.start(1_000)
    with pytest.raises(SendFailed, match=r"^the cluster is away$"):
        commit(transactions, records_of(tmp_path, b"away"), 1)
    with pytest.raises(TopicsRefused) as found:
        commit(transactions, records_of(tmp_path, b"refused"), 1)
    assert found.value.topics == {"t": TopicRefusal("a record is wrong", is_of_a_record=True)}


def test_a_process_that_ended_is_begun_again_by_the_next_start(make: Maker, landed: Path, tmp_path: Path) -> None:
    transactions = make()
    transactions.start(1_000)
    with pytest.raises(SendFailed, match=r"^the process that produces ended with exit code 7$"):
        commit(transactions, records_of(tmp_path, b"crash"), 1)
    transactions.close()
    assert transactions.start(1_000) == 0
    assert transactions._process is not None
    os.kill(transactions._process.pid, signal.SIGKILL)
    with pytest.raises(SendFailed, match=r"^the process that produces ended by signal 9$"):
        commit(transactions, records_of(tmp_path, b"a"), 1)
    assert transactions.start(1_000) == 0
    commit(transactions, records_of(tmp_path, b"b"), 1)
    assert landed.read_text() == "1 ['b']\n"


def test_a_process_that_does_not_answer_is_killed(make: Maker, tmp_path: Path) -> None:
    transactions = make()
    transactions.start(1_000)
    process, connection = transactions._process, transactions._connection
    assert process is not None and connection is not None
    with socket.socket(fileno=os.dup(connection.fileno())) as same:
        same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 50_000))
    with pytest.raises(SendFailed, match=r"^the process that produces did not answer in "):
        commit(transactions, records_of(tmp_path, b"hang"), 1)
    assert process.returncode == -signal.SIGKILL


def test_a_process_that_cannot_be_begun_is_a_sentence() -> None:
    with pytest.raises(SendFailed, match=r"^no process can be begun to produce: No such file or directory$"):
        ProducerProcess(CONFIG, command=["/nowhere/python"]).start(1_000)


def test_the_process_ends_with_the_agent_also_within_a_call() -> None:
    """librdkafka looks for a cluster that is not there."""
    agent = subprocess.Popen(dying_with_us([sys.executable, "-c", AGENT]), stdout=subprocess.PIPE, text=True)
    with agent:
        assert agent.stdout is not None
        child = os.pidfd_open(int(agent.stdout.readline()))
        try:
            agent.kill()
            assert select.select([child], [], [], Patience(WAIT_S).limit_s)[0], "the process is still there"
        finally:
            os.close(child)


def test_signals_for_the_agent_do_not_end_the_process() -> None:
    transactions = ProducerProcess(replace(CONFIG, kafka={"no.such.setting": 1}))
    with pytest.raises(SendFailed, match=r"^the transactional id cannot be used: No such configuration property"):
        transactions.start(1_000)
    process = transactions._process
    assert process is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        os.kill(process.pid, number)
    with pytest.raises(SendFailed, match=r"^the transactional id cannot be used: "):
        transactions.start(1_000)
    assert process.poll() is None
    transactions.end()
    assert process.returncode == 0


def test_what_the_process_answers() -> None:
    cluster = Cluster()
    ours, theirs = Pipe()
    thread = threading.Thread(
        target=producer_main.serve, args=(theirs, lambda config: FakeTransactions(cluster, config.transactional_id))
    )
    thread.start()
    try:
        ours.send(Start(CONFIG, 1_000))
        assert ours.recv() == Started(0)
        ours.send(Add(frame(0, b"a")))
        ours.send(Add(frame(1, None)))
        ours.send(Commit(2))
        ours.recv()
        assert (cluster.values, cluster.positions) == ([b"a", None], {"id": 2})
        ours.send(Close())
        cluster.is_away = True
        ours.send(Start(CONFIG, 1_000))
        assert ours.recv() == Failed("the cluster is away")
        cluster.is_away = False
        cluster.refused["t"] = TopicRefusal("the topic t does not exist")
        ours.send(Start(CONFIG, 1_000))
        assert ours.recv() == Started(2)
        ours.send(Add(frame(2)))
        ours.send(Commit(3))
        assert ours.recv() == Refused(cluster.refused)
    finally:
        ours.close()
        thread.join(WAIT_S)
    assert not thread.is_alive()
