"""The tree of files behind the fake store: what a NameNode and its DataNodes know, without any timing.

Every method is one atomic step. Errors are those of the `SegmentStore` port.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from bmq.log.store import AlreadyExists, FileMissing, FileStatus, StoreError


@dataclass(slots=True, eq=False)
class File:
    """`stamp` is the generation stamp: a writer whose stamp is older is refused.

    `replicas`: by node of the current stamp, how many bytes of `data` it holds; `data` is as long as the longest of them.
    `waiting`: those of them that were restarted while the file was open. Such a replica can be neither read nor written:
    only lease recovery can use it, and does so where no other replica is left.
    `held`: what was on all nodes of a generation at some time, as (bytes, number of nodes), for those who check histories.
    """

    file_id: int
    holder: str
    is_open: bool = True
    stamp: int = 1
    modified_ms: int = -1  # when it was last written, where a test says so
    is_connected: bool = False  # its writer has set the block up on the replicas
    is_committed: bool = False  # complete() fixed the length, but too few replicas were reported yet: still open
    is_hsync: bool = False  # its writer asked for every append to be on disk
    was_dropped: bool = False  # lease recovery or deletion threw an unconnected block away
    is_deleted: bool = False
    data: bytearray = field(default_factory=bytearray)
    synced_bytes: int = 0
    replicas: dict[str, int] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    held: list[tuple[int, int]] = field(default_factory=list)

    def note_held(self) -> None:
        if self.replicas:
            self.held.append((min(self.replicas.values()), len(self.replicas)))

    def most_replicas(self, end_position: int) -> int:
        """On how many nodes everything before `end_position` has been at once."""
        return max((count for length_bytes, count in self.held if length_bytes >= end_position), default=0)


@dataclass(slots=True, eq=False)
class Directory:
    file_id: int
    children: dict[str, File | Directory] = field(default_factory=dict)
    lease_client: object | None = None  # who created in it, for stores whose lease is a lock


class Namespace:
    """`changes` notes what was made, renamed and deleted, oldest first, while it is not None (PastNamespace)."""

    def __init__(self) -> None:
        self._next_id = 1
        self.root = Directory(self._new_id())
        self.used_bytes = 0
        self.changes: list[tuple[Directory, str, File | Directory | None]] | None = None

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def find(self, path: str) -> File | Directory | None:
        node: File | Directory | None = self.root
        for part in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = node.children.get(part)
        return node

    def file(self, path: str) -> File:
        node = self.find(path)
        if not isinstance(node, File):
            raise FileMissing(path)
        return node

    def directory(self, path: str) -> Directory:
        node = self.find(path)
        if not isinstance(node, Directory):
            raise FileMissing(path)
        return node

    def parent(self, path: str) -> tuple[Directory, str]:
        parts = _parts(path)
        if not parts:
            raise StoreError("the root itself cannot be made, renamed or deleted")
        return self.directory("/".join(parts[:-1])), parts[-1]

    def make_directory(self, path: str, *, with_parents: bool) -> None:
        parts = _parts(path)
        for depth in range(1 if with_parents else len(parts), len(parts) + 1):
            parent, name = self.parent("/".join(parts[:depth]))
            node = parent.children.get(name)
            if node is None:
                self._put(parent, name, Directory(self._new_id()))
            elif isinstance(node, File):
                raise AlreadyExists(path)

    def create(self, path: str, holder: str) -> File:
        parent, name = self.parent(path)
        if name in parent.children:
            raise AlreadyExists(path)
        file = File(self._new_id(), holder)
        self._put(parent, name, file)
        return file

    def rename(self, source: str, target: str) -> None:
        source_parent, source_name = self.parent(source)
        if source_name not in source_parent.children:
            raise FileMissing(source)
        target_parent, target_name = self.parent(target)
        if target_name in target_parent.children:
            raise AlreadyExists(target)
        if (target + "/").startswith(source + "/"):
            raise FileMissing(target)
        node = source_parent.children[source_name]
        self._put(source_parent, source_name, None)
        self._put(target_parent, target_name, node)

    def delete(self, path: str, *, recursive: bool) -> bool:
        node = self.find(path)
        if node is None:
            return False
        if isinstance(node, Directory) and node.children and not recursive:
            raise StoreError(f"directory {path} is not empty")
        parent, name = self.parent(path)
        self._put(parent, name, None)
        for _, file in files_below(node, ""):
            file.is_deleted = True
            file.is_open = False
            file.stamp += 1
            file.was_dropped |= not file.is_connected
            self.used_bytes -= len(file.data)
        return True

    def _put(self, directory: Directory, name: str, node: File | Directory | None) -> None:
        """The one place where the tree changes. None: nothing has that name any more."""
        if self.changes is not None:
            self.changes.append((directory, name, directory.children.get(name)))
        if node is None:
            del directory.children[name]
        else:
            directory.children[name] = node

    def extend(self, file: File, data: bytes | memoryview) -> None:
        """On every replica."""
        file.data += data
        self.used_bytes += len(data)
        for node in file.replicas:
            file.replicas[node] = len(file.data)
        file.note_held()

    def extend_some(self, file: File, data: bytes | memoryview, lengths: dict[str, int]) -> None:
        """Each of these nodes, which have all there is so far, takes so many bytes of `data` and no more."""
        before_bytes, kept_bytes = len(file.data), max(lengths.values(), default=0)
        file.data += data[:kept_bytes]
        self.used_bytes += kept_bytes
        for node, length_bytes in lengths.items():
            file.replicas[node] = before_bytes + length_bytes

    def keep_replicas(self, file: File, nodes: list[str]) -> None:
        """Go on with these nodes alone, made equal to the longest of them, under a new stamp.

        Lease recovery makes replicas that wait for it equal to the shortest.
        """
        file.stamp += 1
        if not file.replicas:
            return
        lengths = [file.replicas[node] for node in nodes]
        length_bytes = min(lengths) if file.waiting.issuperset(nodes) else max(lengths)
        self.truncate(file, length_bytes)
        file.replicas = dict.fromkeys(nodes, length_bytes)
        file.waiting.intersection_update(nodes)
        file.note_held()

    def truncate(self, file: File, length_bytes: int) -> None:
        self.used_bytes -= len(file.data) - length_bytes
        del file.data[length_bytes:]
        file.synced_bytes = min(file.synced_bytes, length_bytes)
        for node, held_bytes in file.replicas.items():
            file.replicas[node] = min(held_bytes, length_bytes)

    def entries(self, path: str) -> tuple[FileStatus, ...]:
        return tuple(status_of(name, node) for name, node in sorted(self.directory(path).children.items()))


class PastNamespace:
    """The tree as it was when `changes` began: what a NameNode shows that does not know that it was replaced.

    Names only: a file that is in it shows its present length.
    """

    def __init__(self, namespace: Namespace) -> None:
        assert namespace.changes is not None
        self._root = namespace.root
        self._before: dict[tuple[Directory, str], File | Directory | None] = {}
        for directory, name, node in namespace.changes:
            self._before.setdefault((directory, name), node)

    def children(self, directory: Directory) -> dict[str, File | Directory]:
        children: dict[str, File | Directory | None] = {**directory.children}
        children |= {name: node for (place, name), node in self._before.items() if place is directory}
        return {name: node for name, node in sorted(children.items()) if node is not None}

    def find(self, path: str) -> File | Directory | None:
        node: File | Directory | None = self._root
        for part in _parts(path):
            if not isinstance(node, Directory):
                return None
            node = self._before[node, part] if (node, part) in self._before else node.children.get(part)
        return node

    def entries(self, path: str) -> tuple[FileStatus, ...]:
        node = self.find(path)
        if not isinstance(node, Directory):
            raise FileMissing(path)
        return tuple(status_of(name, child) for name, child in self.children(node).items())


def status_of(name: str, node: File | Directory) -> FileStatus:
    """An open file's length is reported as 0: a NameNode does not know it either."""
    if isinstance(node, Directory):
        return FileStatus(name, True, 0, node.file_id, False)
    length_bytes = 0 if node.is_open else len(node.data)
    return FileStatus(name, False, length_bytes, node.file_id, node.is_open, node.modified_ms)


def files_below(node: File | Directory, path: str) -> Iterator[tuple[str, File]]:
    """Every file at or below `node` with its path."""
    if isinstance(node, File):
        yield path, node
        return
    for name, child in node.children.items():
        yield from files_below(child, f"{path}/{name}" if path else name)


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]
