"""The server that clients are tested with is the one that users install: a wheel of this tree, without extras."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bmq.records.native.library import ABI, CHECKSUM_SUFFIX, FILE_NAME
from testing.processes import REPOSITORY
from testing.servers import BmqServer, bmq_command, server_command

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(60)]

WAIT_S = 30.0
EXTRAS = ("confluent_kafka", "fastavro", "matplotlib", "numba", "numpy", "pyarrow", "pyspark", "pytest")
IMPORTABLE = """
import importlib.util, bmq
names = [name for name in {extras!r} if importlib.util.find_spec(name) is not None]
print(bmq.__file__, *names)
"""


def test_servers_under_test_are_started_from_the_plain_install(tmp_path: Path) -> None:
    server = BmqServer(tmp_path / "data")
    server.start()
    try:
        words = Path(f"/proc/{server.pid}/cmdline").read_text().split("\0")
    finally:
        server.close()
    assert server_command() in words
    # Where the server's own working directory is the tree, it must not be what is imported.
    told = subprocess.run(
        [str(Path(server_command()).with_name("python")), "-P", "-c", IMPORTABLE.format(extras=EXTRAS)],
        capture_output=True,
        text=True,
        check=True,
        cwd=REPOSITORY,
    ).stdout.split()
    is_plain = server_command() != bmq_command()
    assert (told[0] == str(REPOSITORY / "bmq" / "__init__.py")) is not is_plain
    assert not is_plain or told[1:] == []


def test_the_gate_starts_servers_from_the_plain_install() -> None:
    makefile = (REPOSITORY / "Makefile").read_text()
    assert "UNDER_TEST := BMQ_UNDER_TEST=$(CURDIR)/$(PLAIN)/bin/bmq\n" in makefile
    for command in ("tools/stages.py test", "-m tools.campaign", "-m tools.durations", "-m tools.steady"):
        assert f"@$(UNDER_TEST) $(BIN)/python {command}" in makefile
    recipe = makefile.partition("\n$(PLAIN)/.installed:")[2].partition("\n\n")[0]
    assert "install .cache/plain/bmq-*.whl\n" in recipe
    assert "[" not in recipe and "--editable" not in recipe, "without extras, and not in place"


@pytest.mark.parametrize(
    "command",
    [
        "topic list --bootstrap 127.0.0.1:1",
        "group list --bootstrap 127.0.0.1:1",
        "config describe topic t --bootstrap 127.0.0.1:1",
        "cluster status --rest http://127.0.0.1:1",
        "table list --rest http://127.0.0.1:1",
        "verify --data none",
        "log segments t --data none",
        "dev hdfs status --data none",
    ],
)
def test_a_command_that_cannot_do_its_work_says_so_in_one_sentence(tmp_path: Path, command: str) -> None:
    ran = subprocess.run(
        [server_command(), *command.split()],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    (sentence,) = ran.stderr.splitlines()
    assert sentence.startswith("bmq: ")


def without_library(_: Path) -> str:
    return "libbmqkernel.so is not there: bmq was installed without a C compiler"


def with_another_version(native: Path) -> str:
    source = native / "other.c"
    source.write_text("long long bmq_kernel_abi(void) { return 99; }\n")
    subprocess.run(["cc", "-fPIC", "-shared", "-o", native / FILE_NAME, source], check=True)
    return f"libbmqkernel.so has interface 99, this version of bmq calls interface {ABI}"


def for_another_processor(native: Path) -> str:
    with_another_version(native)
    data = bytearray((native / FILE_NAME).read_bytes())
    data[18:20] = (0x16).to_bytes(2, "little")  # e_machine of ELF: IBM S/390
    (native / FILE_NAME).write_bytes(data)
    return "libbmqkernel.so is made for another processor"


@pytest.mark.parametrize("library", [without_library, with_another_version, for_another_processor])
def test_a_server_without_a_usable_kernel_says_so_in_one_line_and_works(
    tmp_path: Path, library: Callable[[Path], str]
) -> None:
    python = Path(server_command()).with_name("python")
    told = subprocess.run([python, "-P", "-c", "import bmq; print(bmq.__file__)"], capture_output=True, check=True)
    package = tmp_path / "packages" / "bmq"
    shutil.copytree(
        Path(told.stdout.decode().strip()).parent, package, ignore=shutil.ignore_patterns("*.so", "*.sha256")
    )
    native = package / "records" / "native"
    reason = library(native)
    if (made := native / FILE_NAME).exists():
        made.with_name(FILE_NAME + CHECKSUM_SUFFIX).write_text(hashlib.sha256(made.read_bytes()).hexdigest())
    server = BmqServer(tmp_path / "data", {"PYTHONPATH": str(package.parent)})
    server.start()
    try:
        values = [b"%d" % number for number in range(100)]
        producer = Producer({"bootstrap.servers": server.bootstrap, "compression.type": "lz4"})
        for value in values:
            producer.produce("t", value, partition=0)
        assert producer.flush(WAIT_S) == 0
        consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        assert [message.value() for message in consumer.consume(len(values), WAIT_S)] == values
        consumer.close()
    finally:
        server.close()
    lines = [line for line in str(server.process).splitlines() if "kernel_missing" in line]
    assert len(lines) == 1
    assert reason in lines[0]
