"""What a power loss leaves of segments that were not synced."""

from __future__ import annotations

import random

from bmq.log.manifest import Manifest
from bmq.log.names import index_name, parse_epoch_directory, parse_manifest, parse_segment
from bmq.log.store import StoreError
from tests.fakes.namespace import Directory, File, Namespace


def damage_unsynced(namespace: Namespace, partition: str, dice: random.Random) -> None:
    """Closing a file does not put it on the disks either: segments that no manifest names yet may be short or rotten."""
    root = namespace.find(partition)
    if not isinstance(root, Directory):
        return
    for name in sorted(root.children, key=lambda name: parse_epoch_directory(name) or (0, False), reverse=True):
        files = root.children[name]
        assert isinstance(files, Directory)
        numbers = [n for n in map(parse_manifest, files.children) if n is not None]
        if not numbers:
            continue
        manifest_file = files.children[f"manifest.{max(numbers):08d}"]
        assert isinstance(manifest_file, File)
        try:
            first_roll = Manifest.decode(bytes(manifest_file.data)).next_roll
        except StoreError:
            return
        for child, file in sorted(files.children.items()):
            roll = parse_segment(child)
            if roll is None or roll < first_roll or not isinstance(file, File) or not file.data:
                continue
            if dice.random() < 0.3:
                namespace.truncate(file, dice.randint(0, len(file.data)))
            # A store's own checksums find rot in what it was asked to sync, and an index is.
            if dice.random() < 0.8 and file.data and index_name(roll) not in files.children:
                file.data[dice.randrange(len(file.data))] ^= 1 << dice.randrange(8)
        return
