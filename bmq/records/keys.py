"""Keys of records for share groups that keep the order of each key. By the kernel in C, or its twin where there is none.

- `key_hashes(body, record_count, last_delta)`: the hash of each offset of a batch, 2 bytes each in the machine's order; a
  status, 0 or the negative of a kind of damage.
- `own_slots(seeds)`: who of the members owns each of the SLOTS ranges of hashes. One that comes or goes moves its own ranges only.
- `take_keys(window, low, first, end, records_max)`: which records a member may be given of the indexes [first, end); those
  below `low` are gone. See key_layout.

All raise ValueError for arguments that contradict each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bmq.records.native.library import kernel

if TYPE_CHECKING or kernel().library is None:
    from bmq.records.keys_twin import key_hashes, own_slots, take_keys
else:
    from bmq.records.keys_native import key_hashes, own_slots, take_keys

__all__ = ["key_hashes", "own_slots", "take_keys"]
