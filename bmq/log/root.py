"""The description of a cluster's root directory: the cluster's id and the format of the files (rule 18).

It is the file `cluster.json` at the root of any `SegmentStore`, written once, before all other files.
"""

from __future__ import annotations

import base64
import json
from typing import Final

from bmq.dataclass import dataclass
from bmq.log.damage import read_named
from bmq.log.store import AlreadyExists, CorruptFile, FileMissing, SegmentStore, StoreError

ROOT_FILE: Final = "cluster.json"
FORMAT_VERSION: Final = 2
"""1: batches lie back to back in a segment. 2: appends of topics with hsync may be padded (padding.py).

A root keeps the version that it was made with. A server refuses a root whose version it does not know.
"""
_ROOT_FILE_BYTES_MAX: Final = 4096


class RootError(StoreError):
    """The root cannot be used. The message is one sentence for the operator."""


class RootInUse(RootError):
    """Another living server has the data directory."""


class RootForeign(RootError):
    """The directory has files of another program."""


class RootUnusable(RootError):
    """The directory cannot be made, read or written, or its file system lacks a needed feature."""


class WrongCluster(RootError):
    """The root belongs to another cluster than this server."""


class NewerFormat(RootError):
    """The root was written by a later release."""


@dataclass(frozen=True, slots=True)
class ClusterRoot:
    """The root's description. `cluster_id`: 22 characters, as Kafka writes UUIDs; Metadata and DescribeCluster show it."""

    cluster_id: str
    format_version: int

    @property
    def may_pad(self) -> bool:
        return self.format_version >= 2


def cluster_id_from(random_bytes: bytes) -> str:
    """A random UUID as Kafka writes it: URL-safe base64 of 16 bytes without padding, never with "-" in front.

    Source: org.apache.kafka.common.Uuid.randomUuid().
    """
    uuid_bytes = bytearray(random_bytes[:16])
    uuid_bytes[6] = (uuid_bytes[6] & 0x0F) | 0x40
    uuid_bytes[8] = (uuid_bytes[8] & 0x3F) | 0x80
    cluster_id = base64.urlsafe_b64encode(uuid_bytes).rstrip(b"=").decode()
    return cluster_id if not cluster_id.startswith("-") else "A" + cluster_id[1:]


async def open_root(
    store: SegmentStore, *, holder: str, new_cluster_id: str, expected_cluster_id: str | None = None
) -> ClusterRoot:
    """The root's description. An empty root gets one first, with `expected_cluster_id` or else `new_cluster_id`.

    `new_cluster_id`: a new one for each call, because the description's draft is named after it (rule 21): a late rename of an
    earlier call's draft must not take the draft that a later call is still writing.
    Raises RootForeign, WrongCluster, NewerFormat.
    """
    try:
        found = await _read_root(store)
        if found is None:
            await _write_root(store, holder, expected_cluster_id or new_cluster_id, f"{holder}.{new_cluster_id}")
            found = await _read_root(store)
    except AlreadyExists:  # another server of the same cluster was quicker
        found = await _read_root(store)
    if found is None:
        raise RootForeign(f"{ROOT_FILE} vanished while it was being written; is another server starting here?")
    if expected_cluster_id is not None and found.cluster_id != expected_cluster_id:
        raise WrongCluster(f"the root belongs to cluster {found.cluster_id}, this server to {expected_cluster_id}")
    return found


async def require_empty_root(store: SegmentStore) -> None:
    """Raises RootForeign when the root has a cluster, or the beginning of one."""
    names = {entry.name for entry in await store.list_directory("")}
    if ROOT_FILE in names:
        raise RootForeign("the root has a cluster already: name an empty directory")
    if "topics" in names:
        raise RootForeign(f"the root has topics but no {ROOT_FILE}: name an empty directory, or empty this one")


async def finish_root(store: SegmentStore, *, holder: str, cluster_id: str) -> None:
    """Describe a root whose first files are there already: from now on servers start on it. Raises AlreadyExists."""
    await _rename_draft(store, holder, cluster_id, f"{ROOT_FILE}.{holder}.{cluster_id}")


async def read_root(store: SegmentStore) -> ClusterRoot:
    """The root's description, for callers that only read it. Raises RootForeign (not a cluster's root), NewerFormat."""
    found = await _read_root(store)
    if found is None:
        raise RootForeign(f"it has no {ROOT_FILE}, so it is not the root of a cluster")
    return found


async def _read_root(store: SegmentStore) -> ClusterRoot | None:
    status = await store.status(ROOT_FILE)
    if status is None:
        return None
    if status.is_open:
        raise RootForeign(f"{ROOT_FILE} is unfinished: restore it before anything is served")
    try:
        text = await read_named(store, ROOT_FILE, bytes, length_bytes_max=_ROOT_FILE_BYTES_MAX)
        content = json.loads(text)
        root = ClusterRoot(str(content["cluster_id"]), int(content["format_version"]))
    except FileMissing:
        return None
    except (ValueError, KeyError, TypeError, CorruptFile) as error:
        raise RootForeign(f"{ROOT_FILE} is there but is not a cluster description of bmq: {error}") from error
    if root.format_version > FORMAT_VERSION:
        raise NewerFormat(
            f"the root has format {root.format_version}, written by a later version; this one reads up to {FORMAT_VERSION}"
        )
    return root


async def _write_root(store: SegmentStore, holder: str, cluster_id: str, draft_name: str) -> None:
    """Write a draft and rename it, so that exactly one of several servers that start together makes the root."""
    names = [entry.name for entry in await store.list_directory("")]
    if "topics" in names:
        raise RootForeign(f"the root has topics but no {ROOT_FILE}: restore that file before anything is served")
    for name in names:
        if name.startswith(f"{ROOT_FILE}.{holder}."):
            await store.delete(name)  # of an earlier try
    await _rename_draft(store, holder, cluster_id, f"{ROOT_FILE}.{draft_name}")


async def _rename_draft(store: SegmentStore, holder: str, cluster_id: str, draft: str) -> None:
    content = {"cluster_id": cluster_id, "format_version": FORMAT_VERSION}
    await store.write_file(draft, json.dumps(content, indent=2).encode() + b"\n", holder=holder)
    try:
        await store.rename(draft, ROOT_FILE)
    except AlreadyExists:
        await store.delete(draft)
        raise
