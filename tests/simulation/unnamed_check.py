"""No file of a compaction is left that the log does not name, as the store itself shows it."""

from __future__ import annotations

from bmq.broker.runtime import PartitionRuntime
from bmq.log.names import parse_cleaned, parse_epoch_directory
from tests.fakes.namespace import Directory, Namespace


def unnamed_files(namespace: Namespace, runtime: PartitionRuntime) -> list[str]:
    """Compacted segments, and indexes beside such, in the directories of a partition, that its owner does not name."""
    parts = runtime.inspect()
    partition = namespace.find(parts.paths.partition)
    if parts.files is None or not isinstance(partition, Directory):
        return []
    named = {(extent.leader_epoch, extent.roll) for extent in parts.files.extents}
    found: list[str] = []
    for directory_name, node in partition.children.items():
        epoch = parse_epoch_directory(directory_name)
        if epoch is None or not isinstance(node, Directory):
            continue
        found += (
            f"{parts.paths.partition}/{directory_name}/{name}"
            for name in node.children
            if (roll := parse_cleaned(name)) is not None and (epoch[0], roll) not in named
        )
    return found
