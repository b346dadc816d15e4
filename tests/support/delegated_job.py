"""What `bmq spark compact` does for one plan, without Spark: the same parts one after the other, and a dictionary for the shuffle."""

from __future__ import annotations

from array import array

from bmq.compaction.group_cleaning import SegmentNotes, newest_of_group, write_group
from bmq.compaction.key_map import KeyHashes
from bmq.compaction.log_cleaner import TransactionState
from bmq.log.delegated_compaction import CleanedFile, DelegatedPlan
from bmq.log.store import SegmentStore
from bmq.spark.jobs.compact import states_of

SEED = bytes(range(16))


async def keys_of(store: SegmentStore, plan: DelegatedPlan) -> tuple[dict[int, KeyHashes], list[TransactionState]]:
    """By group what a shuffle gives; and the state of transactions where each group begins."""
    cleaning = plan.cleaning
    found: dict[tuple[int, int], tuple[int, set[int]]] = {}
    parts, segment = {}, 0
    for group, (extents, paths) in enumerate(zip(cleaning.groups, cleaning.paths, strict=True)):
        for extent, path in zip(extents, paths, strict=True):
            notes = SegmentNotes(store, cleaning, extent, path, SEED)
            async for keys in notes.keys():
                for first, second, offset in zip(keys.first, keys.second, keys.offsets, strict=True):
                    last, groups = found.get((int(first), int(second)), (-1, set()))
                    if offset >= cleaning.first_dirty_offset:
                        last = max(last, int(offset))
                    found[int(first), int(second)] = last, groups | {group}
            parts[segment] = notes.part
            segment += 1
    by_group = {}
    for group in range(len(cleaning.groups)):
        rows = [(*key, last) for key, (last, groups) in found.items() if group in groups and last >= 0]
        first, second, newest = zip(*rows, strict=True) if rows else ((), (), ())  # type: ignore[assignment]
        columns = array("Q", first), array("Q", second), array("q", newest)  # type: ignore[call-overload]
        by_group[group] = KeyHashes(*map(memoryview, columns))  # type: ignore[arg-type]
    return by_group, states_of(cleaning, parts)


async def clean(store: SegmentStore, plan: DelegatedPlan, *, attempt: str = "a") -> list[CleanedFile]:
    """Write the files of all groups."""
    keys, states = await keys_of(store, plan)
    return [
        await write_group(
            store,
            plan.cleaning,
            plan.directory,
            group,
            newest_of_group(plan.cleaning, group, keys[group], SEED),
            states[group],
            attempt=attempt,
            holder=f"job-{attempt}",
        )
        for group in range(len(plan.cleaning.groups))
    ]
