"""A server that cannot start says why in one sentence on standard error and ends with exit code 1."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest

from testing.patience import Patience
from testing.processes import dying_with_us
from testing.servers import BmqServer, server_command, standalone_arguments

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(60)]


def refusal(arguments: list[str]) -> str:
    """The one sentence of a start that is refused."""
    done = subprocess.run(
        dying_with_us([server_command(), *arguments]),
        capture_output=True,
        text=True,
        timeout=Patience(20).limit_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "Traceback" not in done.stderr, done.stderr
    assert "ready" not in done.stdout
    sentences = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("{")]
    assert len(sentences) == 1, done.stderr
    return sentences[0]


def test_occupied_kafka_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupier:
        address = f"127.0.0.1:{occupier.getsockname()[1]}"
        assert address in refusal(standalone_arguments(tmp_path / "data", listen=address))


def test_occupied_rest_port(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as occupier:
        address = f"127.0.0.1:{occupier.getsockname()[1]}"
        arguments = ["standalone", "--listen", "127.0.0.1:0", "--rest", address, "--data", str(tmp_path / "data")]
        assert address in refusal(arguments)


def test_address_of_another_machine(tmp_path: Path) -> None:
    sentence = refusal(standalone_arguments(tmp_path / "data", listen="192.0.2.1:0"))
    assert "192.0.2.1" in sentence


def test_unwritable_data_directory(tmp_path: Path) -> None:
    """Root may write anywhere; /proc is where even root cannot make a directory."""
    if os.geteuid() != 0:
        directory = tmp_path / "locked"
        directory.mkdir(mode=0o500)
        data = directory / "data"
    else:
        data = Path("/proc/bmq-data")
    assert str(data) in refusal(standalone_arguments(data))


def test_data_path_is_a_file(tmp_path: Path) -> None:
    data = tmp_path / "file"
    data.write_text("not a directory")
    assert str(data) in refusal(standalone_arguments(data))


def test_foreign_data_directory(tmp_path: Path) -> None:
    """A directory with somebody else's files is not taken over, and nothing in it is changed."""
    data = tmp_path / "foreign"
    data.mkdir()
    (data / "thesis.tex").write_text("do not touch")
    assert str(data) in refusal(standalone_arguments(data))
    assert [path.name for path in data.iterdir()] == ["thesis.tex"]
    assert (data / "thesis.tex").read_text() == "do not touch"


def test_two_servers_on_one_directory(tmp_path: Path) -> None:
    data = tmp_path / "data"
    first = BmqServer(data)
    first.start()
    try:
        assert str(data) in refusal(standalone_arguments(data))
        assert first.get("/v1/health")[0] == 200, "the first server was disturbed"
    finally:
        first.close()
    # The lock went with the process: the directory is free again.
    again = BmqServer(data)
    again.start()
    assert again.stop() == 0


def test_data_directory_copied_without_its_ids(tmp_path: Path) -> None:
    """cp -r leaves out extended attributes: a server on such a copy once gave records of one topic for another's."""
    server = BmqServer(tmp_path / "data")
    server.start()
    assert server.stop() == 0
    for option in ("-r", "-a"):
        subprocess.run(["cp", option, tmp_path / "data", tmp_path / f"copy{option}"], check=True)
    sentence = refusal(standalone_arguments(tmp_path / "copy-r"))
    assert str(tmp_path / "copy-r") in sentence and "cp -a" in sentence
    again = BmqServer(tmp_path / "copy-a")
    again.start()
    assert again.stop() == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--listen", "nonsense"], "nonsense"),
        (["--listen", "127.0.0.1:99999"], "99999"),
        (["--listen", "0.0.0.0:0"], "set advertised to"),
        (["--rest", "127.0.0.1:http"], "http"),
        (["--store", "ftp://elsewhere"], "ftp://elsewhere"),
        (["--config", "/no/such/file.toml"], "/no/such/file.toml"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, arguments: list[str], named: str) -> None:
    base = ["standalone", "--listen", "127.0.0.1:0", "--rest", "127.0.0.1:0", "--data", str(tmp_path / "data")]
    assert named in refusal([*base, *arguments])
