"""Logins by OAUTHBEARER of Java's clients and librdkafka; the keys are served by the test, and change meanwhile."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import jwt
import pytest
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from testing.java import java_command
from testing.patience import Patience
from testing.processes import dying_with_us
from testing.servers import BmqServer
from tests.unit.security.oauth.issuer import AUDIENCE, ISSUER, Issuer

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(240)]

WAIT_S: Final = 30.0


class KeyServer:
    """Publishes the issuer's keys on loopback."""

    def __init__(self) -> None:
        issuer = self.issuer = Issuer(time.time())

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                data = issuer.key_set()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/jwks"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="module")
def keys() -> Iterator[KeyServer]:
    served = KeyServer()
    yield served
    served.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, keys: KeyServer) -> Iterator[BmqServer]:
    settings = {
        "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys.url,
        "bmq.sasl.oauthbearer.allowed.urls": keys.url,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
    }
    server = BmqServer(
        tmp_path_factory.mktemp("oauth") / "data",
        {"BMQ_KAFKA": json.dumps(settings), "BMQ_LOG_LEVEL": "debug"},
        has_extras=True,  # PyJWT
    )
    server.start()
    admin = AdminClient(of_librdkafka(server, keys.issuer.token()))
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(timeout=20)
    yield server
    server.stop()
    logged = server.log_file.read_text()
    assert "Traceback" not in logged and "eyJ" not in logged
    assert "client_authenticated" in logged


def of_librdkafka(server: BmqServer, token: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _: (token, time.time() + 300),
        **more,
    }


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
def test_librdkafka(server: BmqServer, keys: KeyServer, algorithm: str) -> None:
    settings = of_librdkafka(server, keys.issuer.token(algorithm))
    producer = Producer(settings)
    producer.produce("t", b"by a token")
    assert producer.flush(20) == 0
    consumer = Consumer({**settings, "group.id": f"g-{algorithm}", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    message = consumer.poll(30)
    assert message is not None and message.error() is None
    consumer.close()


def test_other_tokens_are_refused_with_the_reason_of_rfc_7628(server: BmqServer, keys: KeyServer) -> None:
    claims = keys.issuer.claims()
    for token in (
        jwt.encode(claims, None, algorithm="none"),  # type: ignore[arg-type]
        jwt.encode(claims, "a secret of more than thirty-two bytes", algorithm="HS256"),
        keys.issuer.token(aud="another"),
        Issuer(time.time()).token(),
    ):
        errors: list[KafkaError] = []
        admin = AdminClient(of_librdkafka(server, token, error_cb=errors.append))
        patience = Patience(WAIT_S)
        while not errors and not patience.is_over():
            admin.poll(0.2)
        assert errors and errors[0].code() == KafkaError._AUTHENTICATION, errors
        assert "invalid_token" in errors[0].str()


def test_javas_client(server: BmqServer, keys: KeyServer, tmp_path: Path) -> None:
    token, config = tmp_path / "token", tmp_path / "client.properties"
    token.write_text(keys.issuer.token())
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        "sasl.login.callback.handler.class="
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler\n"
        f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}\n"
        "sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;\n"
    )
    command = java_command(
        "org.apache.kafka.tools.TopicCommand",
        ["--bootstrap-server", server.bootstrap, "--command-config", str(config), "--list"],
        [f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={token.as_uri()}"],
    )
    done = subprocess.run(
        dying_with_us(command), capture_output=True, text=True, check=False, timeout=Patience(WAIT_S * 2).limit_s
    )
    assert done.returncode == 0 and "t" in done.stdout.split(), done


def test_a_new_key_counts_at_its_first_token(server: BmqServer, keys: KeyServer) -> None:
    keys.issuer.rotate()
    producer = Producer(of_librdkafka(server, keys.issuer.token()))
    producer.produce("t", b"by a new key")
    assert producer.flush(20) == 0
