"""Rules whose breach shows at one moment only: that moment, made by hand. Mutants name these tests."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from bmq.broker.partition_states import Fenced, Mending
from bmq.log.segment_index import IndexBuilder
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.record_batch import BatchHeader
from tests.fakes.store import Faults
from tests.unit.broker.world import CONFIG, World, append, batch_of, virtual

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_repaired_file_is_acknowledged_from_only_between_two_looks(moment: str) -> None:
    """Rule 7: our directory is renamed away just before the repair, or just after it; the file itself still mends."""

    async def main() -> None:
        world = World(0, Faults(append_s=(0.001, 0.001), ack_timeout_s=0.1))
        log = await world.owner().log()
        directory = log.inspect().paths.own
        writer = log.inspect().lifecycle.segments[0].writer
        calls: list[str] = []
        mend = writer.mend

        async def mend_and_lose() -> int:
            calls.append("mend")
            length_bytes = await mend()
            if moment == "after":
                world.store.namespace.rename(directory, log.inspect().paths.own_sealed)
            return length_bytes

        writer.mend = mend_and_lose  # type: ignore[method-assign]
        world.lose_nodes(1, is_hung=True)  # the others have the batch, and nobody acknowledges it
        result = append(log, batch_of(b"a"))
        await asyncio.sleep(0.05)
        if moment == "before":
            world.store.namespace.rename(directory, log.inspect().paths.own_sealed)
        assert (await result).error_code is ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert isinstance(log.state, Fenced)
        assert calls == ([] if moment == "before" else ["mend"]), "missing means fenced: touch nothing"

    virtual(main)


def test_a_thrown_away_segments_name_is_not_used_again() -> None:
    """Rule 2: the deletion of the first may arrive after the second was made, and take what was written to it."""

    async def main() -> None:
        world = World(0, min_insync_retry_s=0.1, upkeep_interval_s=0.1)
        log = await world.owner(replace(CONFIG, min_insync_replicas=2)).log()
        world.lose_nodes(2)
        made: list[str] = []
        create = world.store.namespace.create
        world.store.namespace.create = lambda path, holder: made.append(path) or create(path, holder)  # type: ignore
        assert (await append(log, batch_of(b"a"))).error_code is ErrorCode.NOT_ENOUGH_REPLICAS
        await asyncio.sleep(5)
        assert not isinstance(log.state, Mending)
        segments = [path for path in made if path.endswith(".log")]
        assert len(segments) > 10 and len(set(segments)) == len(segments)

    virtual(main)


def test_an_index_of_another_file_is_not_trusted() -> None:
    """Rule 12: the same epoch, roll and length, but a file that was made again."""
    batch = memoryview(batch_of(b"a"))
    builder = IndexBuilder(3, 0, 77, 0, interval_bytes=1)
    builder.add(BatchHeader.parse(batch), 0, 0)
    index = builder.build(len(batch))
    assert index.is_for(3, 0, 77, len(batch))
    assert not index.is_for(3, 0, 78, len(batch))
