"""The client's own part: addresses that nobody answers at, and settings that librdkafka refuses."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import KafkaError as ClientError
from typer.testing import CliRunner

from bmq.cli.commands import app
from bmq.cli.kafka.client import KafkaClient, failure, require_reachable
from bmq.cli.kafka.model import KafkaFailed, KafkaUnreachable
from bmq.protocol.error_codes import ErrorCode

pytestmark = pytest.mark.unit


@pytest.fixture
def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_one_of_the_servers_is_enough(closed_port: int) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        require_reachable(f"127.0.0.1:{closed_port}, PLAINTEXT://127.0.0.1:{port}")


def test_nobody_answers_is_one_sentence(closed_port: int) -> None:
    with pytest.raises(KafkaUnreachable, match=rf"no server answers at 127.0.0.1:{closed_port} \(Connection refused\)"):
        KafkaClient({"bootstrap.servers": f"127.0.0.1:{closed_port}"})
    result = CliRunner().invoke(app, ["topic", "list", "--bootstrap", f"127.0.0.1:{closed_port}"])
    assert result.exit_code == 1
    assert "BMQ_BOOTSTRAP" in str(result.exception)


@pytest.mark.parametrize("address", ["", ",", "127.0.0.1:port", "127.0.0.1:99999", "[::1:1", "\0:1"])
def test_what_is_no_address_is_one_sentence(address: str) -> None:
    with pytest.raises(KafkaUnreachable, match="no server answers at"):
        require_reachable(address)


def test_a_setting_that_the_library_does_not_know_is_one_sentence() -> None:
    result = CliRunner().invoke(app, ["topic", "list", "--kafka", "no.such=1"])
    assert result.exit_code == 1
    assert isinstance(result.exception, KafkaFailed)
    assert 'No such configuration property: "no.such"' in str(result.exception)


def test_the_servers_code_is_kept() -> None:
    assert failure("it failed", ClientError(ClientError.INVALID_CONFIG)).code is ErrorCode.INVALID_CONFIG
    assert failure("it failed", ClientError(ClientError._TIMED_OUT)).code is ErrorCode.UNKNOWN_SERVER_ERROR
