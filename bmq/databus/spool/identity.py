"""The directory of an agent's spools: its lock, its id, and where the numbers of this start begin.

The numbers of a start are above all numbers of former starts, also when the machine lost the newest records of the former
one: a position that the cluster keeps never covers a record that was accepted later.
"""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Final

from bmq.databus.spool.errors import SpoolUnusable
from bmq.databus.spool.files import PRIVATE, read_small, replace_file
from bmq.dataclass import dataclass

FILE: Final = "agent.json"
LOCK: Final = "lock"
FORMAT: Final = 1
NUMBERS_PER_START: Final = 1 << 40
STARTS_MAX: Final = (1 << 23) - 1
_FILE_BYTES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class SpoolIdentity:
    """`spool_id`: of the directory, made with it. `group`: the group that keeps its positions. `start`: from 1 on."""

    spool_id: str
    group: str
    start: int

    @property
    def first_number(self) -> int:
        """The first number of the records that this start accepts."""
        return self.start * NUMBERS_PER_START


class SpoolDirectory:
    """Held by one process. Raises SpoolUnusable."""

    def __init__(self, directory: Path, agent_id: str, new_id: str) -> None:
        """`new_id`: random, the id of a directory that is new."""
        self.directory = directory
        self._descriptor = -1
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock()
            self.identity = self._start(agent_id, new_id)
        except OSError as error:
            self.close()
            raise SpoolUnusable(f"the spool directory {directory} cannot be used: {error.strerror}") from None
        except SpoolUnusable:
            self.close()
            raise

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _lock(self) -> None:
        self._descriptor = os.open(self.directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SpoolUnusable(f"another agent uses the spool directory {self.directory}") from None

    def _start(self, agent_id: str, new_id: str) -> SpoolIdentity:
        known = self._known()
        if known is None:
            if foreign := sorted(
                path.name for path in self.directory.iterdir() if path.name not in (LOCK, f"{FILE}.new")
            ):
                raise SpoolUnusable(
                    f"{self.directory} has {foreign[0][:100]!r} and is not an agent's spool: name an empty directory"
                )
            known = SpoolIdentity(new_id, f"bmq-databus-{agent_id}-{new_id}", 0)
        if known.start >= STARTS_MAX:
            raise SpoolUnusable(
                f"{self.directory} was used for {known.start} starts: drain it, and name an empty directory"
            )
        identity = SpoolIdentity(known.spool_id, known.group, known.start + 1)
        content = {
            "format": FORMAT,
            "spool_id": identity.spool_id,
            "group": identity.group,
            "start": identity.start,
        }
        replace_file(self.directory / FILE, json.dumps(content).encode(), is_synced=True)
        return identity

    def _known(self) -> SpoolIdentity | None:
        path = self.directory / FILE
        try:
            content = read_small(path, _FILE_BYTES_MAX)
            if content is None:
                return None
            found = json.loads(content)
            if found["format"] != FORMAT:
                raise SpoolUnusable(f"{path} is of format {found['format']}, this release knows {FORMAT}")
            spool_id, group, start = found["spool_id"], found["group"], found["start"]
            if not (isinstance(spool_id, str) and isinstance(group, str) and isinstance(start, int) and start >= 0):
                raise ValueError("a field has a wrong type")
        except (ValueError, KeyError, TypeError):
            raise SpoolUnusable(
                f"{path} is damaged, and with it the agent's place in the cluster: see Damaged spools in docs/DATABUS.md"
            ) from None
        return SpoolIdentity(spool_id, group, start)
