"""Which program has each port that the settings name, by a try to listen there and by /proc."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from bmq.cli.doctor.verdicts.ports import ListenAddress, PortState
from bmq.security.listeners import WrongListeners, listeners_of
from bmq.server.settings import Settings, split_address

_LISTEN: Final = "0A"
"""TCP_LISTEN in /proc/net/tcp."""
_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
_COMMAND_BYTES_MAX: Final = 4096
_SHOWN_CHARACTERS_MAX: Final = 80


def addresses_in_use(settings: Settings, *, is_node: bool) -> dict[str, str]:
    """HOST:PORT by the setting that names it. Workers have the ports behind it."""
    found = {"rest": settings.rest}
    try:
        for listener in listeners_of(settings.kafka, split_address(settings.listen), None):
            name = "listen" if not settings.kafka.get("listeners", "").strip() else f"listener {listener.name}"
            host, port = listener.address
            found[name] = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    except WrongListeners:
        pass  # the check of settings tells it
    if is_node:
        found["internal"] = settings.internal
    return {
        name if count == 1 else f"{name} (worker {number})": _behind(address, number)
        for name, address in found.items()
        for count in [max(1, settings.workers) if is_node else 1]
        for number in range(count)
    }


def listen_addresses(addresses: Mapping[str, str], root: Path = Path("/")) -> list[ListenAddress]:
    """The state of each address; port 0 is always free. Blocks."""
    return [ListenAddress(setting, address, *_state(address, root)) for setting, address in addresses.items()]


def own_processes(root: Path = Path("/")) -> list[int]:
    """Ids of the processes that run a server of bmq, as far as this user sees them."""
    return [pid for pid in _pids(root) if _is_server(_command(root, pid))]


def _behind(address: str, number: int) -> str:
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + number if int(port) else 0}"


def _state(address: str, root: Path) -> tuple[PortState, str]:
    host, port = split_address(address)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return PortState.UNUSABLE, error.strerror or str(error)
        return _owner(port, root)
    return PortState.FREE, ""


def _owner(port: int, root: Path) -> tuple[PortState, str]:
    inodes = _listening_inodes(port, root)
    for pid in _pids(root):
        if not inodes.isdisjoint(_sockets_of(pid, root)):
            command = _command(root, pid)
            shown = command.replace("\0", " ").strip()[:_SHOWN_CHARACTERS_MAX]
            printable = "".join(each if each.isprintable() else "?" for each in shown)
            return (PortState.OURS if _is_server(command) else PortState.TAKEN), f"process {pid} ({printable})"
    return PortState.TAKEN, "a process of another user, which only that user or root sees"


def _listening_inodes(port: int, root: Path) -> set[str]:
    found = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            for line in (root / "proc/net" / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _pids(root: Path) -> Iterator[int]:
    with suppress(OSError):
        for entry in os.scandir(root / "proc"):
            if entry.name.isdigit():
                yield int(entry.name)


def _sockets_of(pid: int, root: Path) -> set[str]:
    found = set()
    with suppress(OSError):  # another user's, or it has ended
        for entry in os.scandir(root / f"proc/{pid}/fd"):
            with suppress(OSError):
                if (match := _SOCKET.fullmatch(str(Path(entry.path).readlink()))) is not None:
                    found.add(match[1])
    return found


def _command(root: Path, pid: int) -> str:
    try:
        with (root / f"proc/{pid}/cmdline").open("rb") as file:
            return file.read(_COMMAND_BYTES_MAX).decode(errors="replace")
    except OSError:
        return ""


def _is_server(command: str) -> bool:
    """Whether the words of a command start a server: `bmq node`, `python -m bmq.cli.main standalone`, a worker."""
    words = command.split("\0")
    is_bmq = any(word.rpartition("/")[2] == "bmq" or word.startswith("bmq.") for word in words[:4])
    return is_bmq and any(word in ("node", "standalone") or word.startswith("bmq.server.") for word in words)
