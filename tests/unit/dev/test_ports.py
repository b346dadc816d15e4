"""Ports are free, distinct and out of the way of outgoing connections."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from bmq.dev.ports import PORTS, PortTaken, ReservedPorts, check_free, pick_ports, pick_ports_in_a_row
from bmq.hdfs.config import Address
from testing.servers import BmqServer

pytestmark = pytest.mark.unit

HOST = "127.0.0.1"


def test_picked_ports_are_distinct_and_in_the_range() -> None:
    found = pick_ports(HOST, 30, Random(1))
    assert len(set(found)) == 30
    assert all(port in PORTS for port in found)


def test_no_outgoing_connection_is_given_one_of_them() -> None:
    first, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert PORTS.stop <= int(first)


def test_a_server_that_is_started_again_has_a_port_of_the_range(tmp_path: Path) -> None:
    assert BmqServer(tmp_path / "data").port in PORTS


def test_a_port_that_somebody_listens_on_is_not_picked() -> None:
    (first,) = pick_ports(HOST, 1, Random(2))
    with socket.create_server((HOST, first)):
        (second,) = pick_ports(HOST, 1, Random(2))
    assert second != first


def test_what_was_picked_is_not_picked_again() -> None:
    assert pick_ports(HOST, 1, Random(5)) != pick_ports(HOST, 1, Random(5))


def test_what_another_process_picked_is_free_again_when_it_ends(tmp_path: Path) -> None:
    """Whatever its TMPDIR."""
    program = "\n".join(
        (
            "from random import Random",
            "from bmq.dev.ports import pick_ports",
            f"print(*pick_ports({HOST!r}, 1, Random(6)), flush=True)",
            "input()",
        )
    )
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment) as other:
        assert other.stdout is not None
        first = int(other.stdout.readline())
        assert pick_ports(HOST, 1, Random(6)) != (first,)
        other.communicate("\n")
    assert other.returncode == 0
    assert pick_ports(HOST, 1, Random(6)) == (first,)


def test_a_pick_that_fails_reserves_nothing() -> None:
    random = Random(7)
    tried = {random.choice(PORTS) for _ in range(30)}
    with pytest.raises(PortTaken):
        pick_ports(HOST, 2_000, Random(7))
    assert tried.intersection(pick_ports(HOST, 30, Random(7)))


def test_ports_in_a_row_are_nobody_elses() -> None:
    row = pick_ports_in_a_row(HOST, 6, Random(8))
    assert len(row) == 6 and all(port in PORTS for port in row)
    assert not set(row).intersection(pick_ports_in_a_row(HOST, 6, Random(8)))


def test_a_row_in_which_somebody_listens_is_not_picked_and_reserves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = pick_ports_in_a_row(HOST, 6, Random(9))
    reserved = ReservedPorts(tmp_path / "lock")  # this test alone has the row
    monkeypatch.setattr("bmq.dev.ports.PORTS", row)
    monkeypatch.setattr("bmq.dev.ports._reserved", lambda: reserved)
    with socket.create_server((HOST, row[-1])), pytest.raises(PortTaken, match="no 6 free ports in a row"):
        pick_ports_in_a_row(HOST, 6, Random(9))
    assert pick_ports_in_a_row(HOST, 6, Random(9)) == row


def test_excluded_ports_are_not_picked() -> None:
    (first,) = pick_ports(HOST, 1, Random(3))
    assert first not in pick_ports(HOST, 1, Random(3), exclude=[first])


def test_asking_for_more_ports_than_there_are_is_an_error_and_not_a_hang() -> None:
    with pytest.raises(PortTaken, match="no 2000 free ports"):
        pick_ports(HOST, 2_000, Random(4))


def test_the_taken_address_is_named() -> None:
    with socket.create_server((HOST, 0)) as server:
        taken = Address(HOST, server.getsockname()[1])
        with pytest.raises(PortTaken, match=f"something else listens on {taken}$"):
            check_free([taken])
    check_free([taken])
