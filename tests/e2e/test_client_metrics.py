"""KIP-714 end to end: stock clients are asked for their metrics, and an OTLP endpoint gets them with who sent them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import Producer

from testing.java import CLIENT_METRICS, CONSOLE_PRODUCER
from testing.processes import eventually
from testing.servers import BmqServer
from tests.e2e.conftest import assert_no_traceback, create_topic
from tests.support.tool_runner import run_tool

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(120)]


class Collector:
    """Takes OTLP over HTTP; `bodies`: what came, with its path and content type."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                collector.bodies.append((self.path, self.headers["content-type"], body))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/metrics"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def of(self, *texts: bytes) -> bool:
        return any(all(text in body for text in texts) for _, _, body in self.bodies)


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.close()


@pytest.fixture
def server(collector: Collector, tmp_path: Path) -> Iterator[BmqServer]:
    made = BmqServer(tmp_path / "data", {"BMQ_TELEMETRY__OTLP_ENDPOINT": collector.url})
    made.start()
    yield made
    made.close()
    assert_no_traceback(made)


def test_clients_of_two_kinds_send_what_they_are_asked_for(server: BmqServer, collector: Collector) -> None:
    run_tool(
        CLIENT_METRICS, "--bootstrap-server", server.bootstrap, "--alter", "--name", "all",
        "--metrics", "*", "--interval", "200", "--match", "client_id=asked.*",
    )  # fmt: skip
    create_topic(server, "t")
    config = {"bootstrap.servers": server.bootstrap}
    silent, asked = Producer({**config, "client.id": "silent"}), Producer({**config, "client.id": "asked-librdkafka"})
    for producer in (silent, asked):
        producer.produce("t", b"record")
        assert producer.flush(20) == 0
    eventually(lambda: asked.poll(0.01) or collector.of(b"asked-librdkafka"), 20, "metrics of librdkafka")

    def heard_of_java() -> bool:
        """A client that ends before it was asked, as it may on a busy machine, sends nothing."""
        run_tool(
            CONSOLE_PRODUCER, "--bootstrap-server", server.bootstrap, "--topic", "t",
            "--command-property", "client.id=asked-java", stdin="a record\n",
        )  # fmt: skip
        return bool(collector.of(b"asked-java", b"apache-kafka-java"))

    eventually(heard_of_java, 100, "metrics of a Java client, at its end")
    for path, content_type, body in collector.bodies:
        assert (path, content_type) == ("/v1/metrics", "application/x-protobuf")
        assert b"client_source_address" in body and b"127.0.0.1" in body and b"org.apache.kafka." in body
        assert b"silent" not in body

    def is_all_counted() -> bool:
        """A client still sends: something may come between the count and the look at it."""
        came = len(collector.bodies)
        return f"bmq_client_metrics_forwarded_total {float(came)}" in server.get("/metrics")[1]

    eventually(is_all_counted, 20, "what came is counted")
    assert "bmq_client_metrics_dropped_total 0.0" in server.get("/metrics")[1]
