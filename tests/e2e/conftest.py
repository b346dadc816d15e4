"""The server under test, and topics to work with.

`BMQ_E2E_SERVER=kafka` runs the same tests against Apache Kafka: what fails there is wrong in the test. Tests marked
`bmq_only` ask for what Apache Kafka does differently on purpose; they are left out then.
"""

from __future__ import annotations

import gc
import os
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from testing.processes import running_processes
from testing.servers import BmqServer, KafkaServer, Server

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SERVER_KIND = os.environ.get("BMQ_E2E_SERVER", "bmq")

MANY_SERIES = {"BMQ_METRICS__TOPICS_MAX": "10000", "BMQ_METRICS__GROUP_TOPICS_MAX": "10000"}
"""The shared server has the topics and groups of all tests: each test finds its own at /metrics."""

TopicMaker = Callable[..., str]
ServerMaker = Callable[[], Server]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "bmq_only: asks for what Apache Kafka does differently on purpose")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if SERVER_KIND == "bmq":
        return
    left_out = [item for item in items if item.get_closest_marker("bmq_only")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failure shows the end of the log of every server that runs."""
    report = yield
    if report.failed:  # type: ignore[attr-defined]
        for process in running_processes():
            report.sections.append((f"log of {process.name}", str(process)))  # type: ignore[attr-defined]
    return report


@pytest.fixture
def sockets_of_kafka_python() -> Iterator[None]:
    """For tests that use kafka-python over TLS: the sockets that it leaves open end with the test.

    Its `_build_transport` (3.0) keeps a socket in a local name until the handshake is done. A handshake that fails, or that
    `close` interrupts, leaves the socket to the garbage collector, whose warning would fail a later test of this process.
    """
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def make_server(directory: Path) -> Server:
    if SERVER_KIND == "kafka":
        return KafkaServer(directory, {"offsets.topic.num.partitions": "5"})
    return BmqServer(directory, MANY_SERIES)


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests that do it no harm."""
    server = make_server(tmp_path_factory.mktemp("shared") / "data")
    server.start()
    yield server
    server.close()


@pytest.fixture
def server(shared_server: Server) -> Iterator[Server]:
    """The shared server; no test may end it or make it log a traceback."""
    assert shared_server.is_running, f"an earlier test ended the shared server{shared_server.process}"
    size_before = shared_server.log_file.stat().st_size
    yield shared_server
    assert shared_server.is_running, f"this test ended the shared server{shared_server.process}"
    assert_no_traceback(shared_server, size_before)


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[ServerMaker]:
    """Makes servers of this test's own, each on a new directory; gone when the test ends."""
    made: list[Server] = []

    def make() -> Server:
        server = make_server(tmp_path / f"server-{len(made)}")
        made.append(server)
        return server

    yield make
    for server in made:
        server.close()
        assert_no_traceback(server)


def assert_no_traceback(server: Server, from_byte: int = 0) -> None:
    if server.name != "bmq" or not server.log_file.exists():
        return
    logged = server.log_file.read_bytes()[from_byte:].decode(errors="replace")
    assert "Traceback (most recent call last)" not in logged, logged[-8_000:]


def unique_name(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:10]}"


def create_topic(server: Server, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config or {})
    admin.create_topics([topic])[name].result(timeout=20)


@pytest.fixture
def make_topic(server: Server) -> TopicMaker:
    """`make_topic(partitions=1, config={...})` makes a topic with a name of its own on the shared server."""

    def make(partitions: int = 1, config: dict[str, str] | None = None) -> str:
        name = unique_name("topic")
        create_topic(server, name, partitions, config)
        return name

    return make


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file. It ends with them: other tests cannot run an event loop beside Playwright's."""
    # Imported late: few files need it.
    from tests.support.browser import launched

    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    from tests.support.browser import axe_source

    return axe_source()
