"""Damage to a file that a log depends on: read again while it may be temporary, then reported, never ignored (rule 25).

A missing or damaged manifest or snapshot takes its partition offline. An operator may accept the loss by name. A file beside the
epochs' directories records that: it names the loss, says when it was accepted, and is never deleted.

    topics/<topic id>/<partition>/accepted.00000007.manifest.00000003     recovery takes the manifest before it
    topics/<topic id>/<partition>/accepted.00000007.snapshot.00000001     the state begins without it
    topics/<topic id>/<partition>/accepted.start.00000120                 the state begins without what was before 120
    topics/<topic id>/<partition>/accepted.end.00000120                   the log may end at offset 120
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Generator
from dataclasses import asdict
from typing import Final, TypeVar

import structlog

from bmq.aio.loop_turns import run_in_turns
from bmq.dataclass import dataclass
from bmq.log.checksummed_parts import UnfinishedParts
from bmq.log.store import AlreadyExists, CorruptFile, FileMissing, SegmentStore

T = TypeVar("T")

PAUSES_S: Final = (0.1, 0.4, 1.5)
"""Pauses between tries to read a file. Meanwhile another replica may be found, or a NameNode may catch up."""
ACCEPTED_PREFIX: Final = "accepted."
_END: Final = "end."

_log = structlog.get_logger("bmq.log")


@dataclass(frozen=True, slots=True)
class Damage:
    """One damage. `partition`: its directory. `name`: by which an operator accepts the loss, unique in the partition.

    `sentence`: what was found.
    """

    partition: str
    name: str
    sentence: str

    @property
    def acceptance(self) -> str:
        """Path of the file whose existence says that the loss was accepted."""
        return f"{self.partition}/{ACCEPTED_PREFIX}{self.name}"

    @property
    def command(self) -> str:
        """The command that accepts the loss. A log's end has no file that names it, so the command gets it as an option."""
        options = f" --end {int(self.name.removeprefix(_END))}" if self.name.startswith(_END) else ""
        return f"bmq log accept-loss {self.partition}{options}"


class StateDamaged(CorruptFile):
    """A file that a log depends on is missing or damaged. The partition goes offline until an operator decides."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(
            f"{damage.sentence}; restore it, or run `{damage.command} --dry-run`, which says what "
            "going on without it would lose, and the same without --dry-run to accept that"
        )
        self.damage = damage


def file_damage(partition: str, leader_epoch: int, file_name: str, reason: str) -> Damage:
    """Damage to a file of an epoch's directory; its name stays the same when the directory is sealed."""
    name = f"{leader_epoch:08d}.{file_name}"
    return Damage(partition, name, f"{partition}/{leader_epoch:08d}/{file_name} {reason}")


def start_damage(partition: str, log_start_offset: int, reason: str) -> Damage:
    """Damage: a state machine's log begins behind the end of its newest snapshot."""
    return Damage(
        partition,
        f"start.{log_start_offset:08d}",
        f"the log in {partition} begins at offset {log_start_offset}, {reason}",
    )


def end_damage(partition: str, end_offset: int, reason: str) -> Damage:
    """Damage: a log ends below an offset that it is known to have had. Accepting it is valid for this end only."""
    return Damage(partition, f"{_END}{end_offset:08d}", f"the log in {partition} ends at offset {end_offset}, {reason}")


async def read_named(store: SegmentStore, path: str, decode: Callable[[bytes], T], *, length_bytes_max: int) -> T:
    """Read and decode a small file that must exist, trying again if it is missing or damaged.

    Raises FileMissing and CorruptFile after the last try, UnfinishedParts at once, and StorageUnavailable.
    """

    def decoding(data: bytes) -> Generator[None, None, T]:
        return decode(data)
        yield

    return await read_named_in_turns(store, path, decoding, length_bytes_max=length_bytes_max)


async def read_named_in_turns(
    store: SegmentStore, path: str, decoding: Callable[[bytes], Generator[None, None, T]], *, length_bytes_max: int
) -> T:
    """Do as `read_named` does, decoding in several turns of the event loop."""
    for pause_s in (*PAUSES_S, None):
        try:
            return await run_in_turns(decoding(await store.read_file(path, length_bytes_max=length_bytes_max)))
        except UnfinishedParts:
            raise
        except (FileMissing, CorruptFile) as error:
            if pause_s is None:
                raise
            _log.warning("file_read_again", path=path, reason=reason_of(error))
            await asyncio.sleep(pause_s)
    raise AssertionError("not reached")


def reason_of(error: FileMissing | CorruptFile) -> str:
    """A clause for a message that says what is wrong with the file."""
    return "is missing" if isinstance(error, FileMissing) else f"is damaged ({error})"


async def is_accepted(store: SegmentStore, damage: Damage) -> bool:
    """Whether an operator accepted this loss. Raises StorageUnavailable."""
    return await store.status(damage.acceptance) is not None


async def require_accepted(store: SegmentStore, damage: Damage) -> None:
    """Return, and log the loss, if an operator accepted it. Raises StateDamaged otherwise, and StorageUnavailable."""
    if not await is_accepted(store, damage):
        raise StateDamaged(damage)
    _log.warning("accepted_loss_passed_over", partition=damage.partition, loss=damage.name, found=damage.sentence)


async def accept(store: SegmentStore, damage: Damage, *, holder: str, now_ms: int) -> None:
    """Record that the loss is accepted; does nothing if it was accepted before. Raises StoreError."""
    content = {**asdict(damage), "accepted_at_ms": now_ms}
    try:
        await store.write_file(damage.acceptance, json.dumps(content, indent=2).encode() + b"\n", holder=holder)
    except AlreadyExists:
        return
    _log.warning("loss_accepted", partition=damage.partition, loss=damage.name, found=damage.sentence)
