"""What compaction does with each record. By the kernel in C, or its twin where there is none.

`bodies` come from bmq.log.batch_bodies. `skipped` and `discarded`: a byte per batch.

- `note_keys` notes the offsets of keys from `dirty_offset` on, in batches that are not `skipped`.
- `hash_keys` gives their hashes in place of that, and `note_hashes` notes hashes: how many of them, fewer when one has no
  room or is out of reach. It leaves out offsets before the table's base; those behind `end_offset` count as that.
- `choose_survivors` says which records stay: of batches that are `discarded` none, of other control batches all. Records below
  `noted_offset` stay if the table has no newer one of their key, and if they have a value or their batch's delete horizon is
  not over at `now_ms`. Newer ones stay.
- `write_survivors` writes the records of body `number` that `keep` names into `out`, which has room for ten bytes a record more than
  the body. Their deltas count from `base_timestamp_ms`; None: from the time of the first of them.

All raise ValueError for arguments that contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.key_compaction_twin import choose_survivors, hash_keys, note_hashes, note_keys, write_survivors
else:
    from bmq.records.key_compaction_native import choose_survivors, hash_keys, note_hashes, note_keys, write_survivors

__all__ = ["choose_survivors", "hash_keys", "note_hashes", "note_keys", "write_survivors"]
