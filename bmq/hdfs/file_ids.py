"""Whether the namespace of HDFS went back to an older state, by the ids of new files (rule 55). Decisions only.

A NameNode gives each new file a higher id than all before it. One that was started on an older checkpoint gives ids out a second
time, and then block locations and cached bytes of one file would be taken for those of another.
"""

from __future__ import annotations

from collections.abc import Callable

from bmq.hdfs.errors import NamespaceWentBack


class FileIds:
    """The ids that this process was given. `went_back()` is called once, as soon as HDFS is known to have an older state."""

    def __init__(self) -> None:
        self.went_back: Callable[[], None] = lambda: None
        self._evidence = ""
        self._highest = 0

    @property
    def highest(self) -> int:
        """Note it before a creation begins: the new file's id has to be above it."""
        return self._highest

    def given(self, file_id: int, *, above: int, path: str) -> None:
        """Take the id of a new file. Raises NamespaceWentBack.

        `above`: `highest` when the creation began. Those that ended meanwhile do not count, as calls overtake each other.
        """
        if file_id <= above:
            self.note(f"{path} was given the file id {file_id}, after a file with the id {above}")
        self.require_present()
        self._highest = max(self._highest, file_id)

    def note(self, evidence: str) -> None:
        """HDFS has an older state. The first evidence is kept."""
        if not self._evidence:
            self._evidence = evidence
            self.went_back()

    @property
    def error(self) -> NamespaceWentBack | None:
        """None: nothing is known of an older state."""
        if not self._evidence:
            return None
        return NamespaceWentBack(
            f"HDFS has an older state than this process has seen: {self._evidence}. Was its NameNode put back to an older"
            " checkpoint? Then stop all nodes, and follow that drill of OPERATIONS.md"
        )

    def require_present(self) -> None:
        """Raises NamespaceWentBack once HDFS is known to have an older state."""
        if self._evidence and (error := self.error) is not None:
            raise error
