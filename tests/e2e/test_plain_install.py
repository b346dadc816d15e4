"""The server that clients are tested with is the one that users install: a wheel of this tree, without extras."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY
from tests.support.servers import BmqServer, bmq_command, server_command

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only, pytest.mark.timeout(60)]

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
