"""One store, several owners in turn, and zombies: the partition machine against a model of what a store may do.

`run(seed)` plays one random history and checks it. Appends reach the file at once but are durable only later; closing a
file keeps any prefix of what was not durable; background effects end in any order; a file that was taken over before
its writer connected swallows appends without a trace (docs/FENCING.md, rule 7).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from bmq.broker import partition_events as ev
from bmq.broker.partition_machine import step
from bmq.broker.partition_start import start
from bmq.broker.partition_states import (
    Blocked,
    Closing,
    Idle,
    Mending,
    Owning,
    Released,
    Releasing,
    State,
    Writing,
)
from bmq.log.partition_log import Batch

OUTSTANDING = (0, 9)  # appends on their way in the whole process, as the events tell
LIMITS = ev.Limits(segment_bytes=12, preopen_bytes=7, appends_outstanding_max=3, replicas_wanted=3, replicas_min=2)


class NamedBatch(Batch):
    __slots__ = ("number",)

    def __init__(self, number: int, offset_count: int, size_bytes: int, is_acks_all: bool) -> None:
        super().__init__(offset_count, size_bytes, is_acks_all=is_acks_all)
        self.number = number


@dataclass(eq=False)
class File:
    epoch: int
    roll: int
    is_open: bool = True
    is_taken: bool = False
    is_connected: bool = False
    is_ghost: bool = False
    is_indexed: bool = False
    is_torn: bool = False
    batches: list[Batch] = field(default_factory=list)
    append_counts: list[int] = field(default_factory=list)
    durable_count: int = 0
    replicas: int = 3
    bytes_max: int = LIMITS.segment_bytes

    def close(self, rnd: Random) -> None:
        kept = rnd.randint(self.durable_count, len(self.batches))
        self.is_torn = kept < len(self.batches) and rnd.random() < 0.5
        self.batches = self.batches[:kept]
        self.durable_count = kept
        self.is_open = False


class Store:
    def __init__(self) -> None:
        self.open_epochs: set[int] = set()
        self.sealed_epochs: set[int] = set()
        self.files: dict[str, File] = {}
        self.manifests: dict[int, list[tuple[str, int]]] = {}  # by epoch: (file, batches that count)
        self.is_full = False
        self.is_away = False
        self.nodes = 3

    def is_ours(self, epoch: int) -> bool:
        return epoch in self.open_epochs

    def walk(self) -> list[tuple[str, int]]:
        """Extents: the newest manifest's, then what follows it to the first gap or torn tail (rule 4)."""
        epoch = max(self.manifests, default=-1)
        extents = list(self.manifests.get(epoch, []))
        named = {name for name, _ in extents}
        end = self.end_of(extents)
        for name, file in sorted(self.files.items(), key=lambda item: (item[1].epoch, item[1].roll)):
            if name in named or file.epoch < epoch or not file.batches:
                continue
            if file.batches[0].base_offset != end:
                break
            extents.append((name, len(file.batches)))
            end = file.batches[-1].end_offset
            if file.is_torn:
                break
        return extents

    def end_of(self, extents: list[tuple[str, int]]) -> int:
        return max((self.files[name].batches[count - 1].end_offset for name, count in extents if count), default=0)

    def log(self) -> list[Batch]:
        return [batch for name, count in self.walk() for batch in self.files[name].batches[:count]]


class Owner:
    """Performs the effects of one owner's machine, each as slowly as the random source likes."""

    def __init__(self, store: Store, epoch: int, floor: int, seen: Counter[str]) -> None:
        self.store = store
        self.epoch = epoch
        self.seen = seen
        self.acknowledged: list[Batch] = []
        self.rejected: list[Batch] = []
        self.is_write_scheduled = False
        self.later: list[object] = []
        self.state: State
        self.state, effects = start(epoch, LIMITS, floor)
        self.later.extend(effects)

    def feed(self, event: ev.Event) -> None:
        before = self.state
        self.state, effects = step(before, event)
        if type(self.state) is not type(before):
            self.seen[type(self.state).__name__] += 1
        if isinstance(self.state, Idle | Blocked | Closing | Releasing):
            assert not self.state.log.waiting and not self.state.log.written, "a batch waits for nothing"
        for effect in effects:
            match effect:
                case ev.Acknowledge(batches, high_watermark, is_short):
                    replicas = self.file(before.segment.roll).replicas  # type: ignore[attr-defined]
                    assert is_short == (replicas < LIMITS.replicas_min), "acks=all heard of too few nodes as enough"
                    assert not before.is_final, "acknowledged after the end"
                    assert isinstance(self.state, Owning)
                    assert high_watermark <= self.state.log.high_watermark
                    self.acknowledged += batches
                case ev.Reject(batches, _):
                    self.rejected += batches
                case ev.ScheduleWrite():
                    self.is_write_scheduled = True
                case ev.WriteBatches(segment, batches):
                    file = self.file(segment.roll)
                    is_short = file.replicas < LIMITS.replicas_min
                    assert not (is_short and any(batch.is_acks_all for batch in batches)), "acks=all on too few nodes"
                    assert batches[0].base_offset >= segment.base_offset
                    if not file.is_ghost and (not file.is_open or file.is_taken):
                        lost = self.later
                        lost.append(ev.WriterBroken(segment.roll) if segment.roll % 2 else ev.OwnershipLost())
                        continue
                    file.batches += batches
                    if len(file.batches) > 1:
                        assert sum(batch.size_bytes for batch in file.batches) <= file.bytes_max, "too long a segment"
                    file.append_counts.append(len(file.batches))
                case ev.Abandon():
                    self.later.clear()
                case _:
                    self.later.append(effect)

    def file(self, roll: int) -> File:
        return self.store.files[f"{self.epoch}/{roll}"]

    def run_one(self, rnd: Random) -> None:
        if not self.later:
            return
        self.perform(self.later.pop(rnd.randrange(len(self.later))), rnd)

    def perform(self, effect: object, rnd: Random) -> None:
        store, epoch = self.store, self.epoch
        is_ours = store.is_ours(epoch)
        match effect:
            case ev.Event() as event:
                self.feed(event)
            case ev.ClaimDirectory():
                if epoch in store.sealed_epochs:
                    store.open_epochs.add(epoch)  # a claimer that came too late leaves its directory behind
                store.open_epochs.add(epoch)
                self.feed(ev.DirectoryClaimed(frozenset(store.open_epochs), frozenset(store.sealed_epochs)))
            case ev.SealDirectories(epochs, leftovers):
                store.open_epochs -= {*epochs, *leftovers}
                store.sealed_epochs |= {*epochs}
                names = (n for n, f in store.files.items() if f.is_open and f.epoch in store.sealed_epochs)
                self.feed(ev.DirectoriesSealed(frozenset(names)))
            case ev.CloseFile(name):
                file = store.files[name]
                file.is_taken = True
                file.close(rnd)
                self.feed(ev.FileClosed(name))
            case ev.WalkLog():
                extents = store.walk()
                is_indexed = all(file.is_indexed for file in store.files.values() if file.batches)
                self.feed(ev.LogWalked(store.end_of(extents), is_indexed))
            case ev.SaveRecoveredIndexes():
                self.save_recovered()
            case ev.WriteManifest(end_offset):
                extents = store.walk()
                if not is_ours:
                    self.feed(ev.OwnershipLost())
                else:
                    assert store.end_of(extents) == end_offset
                    store.manifests[epoch] = extents
                    self.feed(ev.ManifestWritten())
            case ev.OpenSegment(roll):
                self.open_segment(roll)
            case "connect", int() as roll:
                file = self.file(roll)
                file.is_ghost = file.is_taken
                file.is_connected = True
                self.later.append(("look", roll))
            case "look", int() as roll:
                file = self.file(roll)
                bytes_max = rnd.choice((1, 5, LIMITS.segment_bytes, ev.ANY_BYTES))
                file.bytes_max = min(bytes_max, LIMITS.segment_bytes)
                opened = ev.SegmentOpened(roll, file.replicas, bytes_max)
                self.feed(opened if is_ours else ev.OwnershipLost())
            case ev.MendSegment(segment):
                self.mend(segment, rnd)
            case ev.SealSegment(segment, end_offset):
                self.seal(segment, end_offset)
            case ev.DiscardSegment(roll):
                if is_ours:
                    file = self.file(roll)
                    assert not file.batches
                    file.is_open = False
                    del store.files[f"{epoch}/{roll}"]
            case ev.RetryLater():
                self.feed(ev.RetryDue())
            case ev.SealOwnDirectory():
                if not is_ours:
                    self.feed(ev.OwnershipLost())
                else:
                    store.open_epochs.discard(epoch)
                    store.sealed_epochs.add(epoch)
                    self.feed(ev.DirectoryReleased())
            case _:
                raise AssertionError(effect)

    def open_segment(self, roll: int) -> None:
        if not self.store.is_ours(self.epoch):
            self.feed(ev.OwnershipLost())
        elif self.store.is_full or self.store.is_away:
            self.seen["open failed"] += 1
            self.feed(ev.SegmentOpenFailed(roll, self.store.is_full))
            if not isinstance(self.state, Owning):
                self.later.append(ev.OpenSegment(roll))  # while it starts, the runtime tries again by itself
        else:
            mine = [file for file in self.store.files.values() if file.epoch == self.epoch and file.batches]
            unindexed = [file.roll for file in mine if not file.is_indexed]
            if ev.RECOVERED in getattr(self.state, "unindexed", ()):
                unindexed.append(ev.RECOVERED)
            assert len(unindexed) <= 1, f"{unindexed} have no index, and {roll} is opened (rule 4)"
            self.store.files[f"{self.epoch}/{roll}"] = File(self.epoch, roll, replicas=self.store.nodes)
            self.later.append(("connect", roll))

    def mend(self, segment: ev.Segment, rnd: Random) -> None:
        file = self.file(segment.roll)
        if not self.store.is_ours(self.epoch) or file.is_taken:
            self.feed(ev.OwnershipLost())
            return
        file.close(rnd)
        file.is_torn = False  # the cut is in a manifest of ours before the machine hears of it
        file.replicas = min(file.replicas, rnd.randint(1, 3))
        end_offset = file.batches[-1].end_offset if file.batches else segment.base_offset
        self.feed(ev.SegmentMended(segment.roll, end_offset, file.replicas))

    def seal(self, segment: ev.Segment, end_offset: int) -> None:
        file = self.file(segment.roll)
        if not self.store.is_ours(self.epoch):
            self.feed(ev.OwnershipLost())
            return
        assert file.durable_count == len(file.batches)
        assert file.batches[-1].end_offset == end_offset
        file.is_open = False
        if self.store.is_full or self.store.is_away:
            self.later.append(ev.SealSegment(segment, end_offset))
            self.feed(ev.SegmentSealFailed(segment.roll, self.store.is_full))
        else:
            file.is_indexed = True
            self.feed(ev.SegmentSealed(segment.roll))

    def save_recovered(self) -> None:
        if not self.store.is_ours(self.epoch):
            self.feed(ev.OwnershipLost())
        elif self.store.is_full or self.store.is_away:
            self.later.append(ev.SaveRecoveredIndexes())
            self.feed(ev.SegmentSealFailed(ev.RECOVERED, self.store.is_full))
        else:
            for file in self.store.files.values():
                if file.epoch < self.epoch:
                    file.is_indexed = True
            self.seen["recovered indexes saved"] += 1
            self.feed(ev.SegmentSealed(ev.RECOVERED))

    def sync(self, rnd: Random) -> None:
        segment = getattr(self.state, "segment", None)
        if segment is None or isinstance(self.state, Mending):
            return
        file = self.file(segment.roll)
        on_the_way = [count for count in file.append_counts if count > file.durable_count]
        if not on_the_way or (not file.is_ghost and (not file.is_open or file.is_taken)):
            return
        file.durable_count = rnd.choice(on_the_way)
        end_offset = file.batches[file.durable_count - 1].end_offset
        self.feed(ev.SegmentSynced(segment.roll, end_offset, rnd.choice(OUTSTANDING)))

    def hint(self, rnd: Random) -> None:
        segment = getattr(self.state, "segment", None)
        roll = segment.roll if segment is not None else 0
        hints = [ev.RollDue(roll), ev.IdleDue(roll), ev.ReplicasDue(roll), ev.RetryDue()]
        hints.append(ev.WriteDue(rnd.choice(OUTSTANDING)))
        self.feed(ev.WaitExpired() if rnd.random() < 0.05 else rnd.choice(hints))

    def break_writer(self, rnd: Random) -> None:
        if isinstance(self.state, Writing):
            is_full = self.store.is_full or rnd.random() < 0.2
            self.feed(ev.WriterBroken(self.state.segment.roll, is_full, is_resting=rnd.random() < 0.3))


def run(seed: int) -> Counter[str]:
    """One history; how often each state was entered, and what else happened. Raises AssertionError."""
    rnd = Random(seed)
    store = Store()
    owners: list[Owner] = []
    seen: Counter[str] = Counter()
    high_watermark = number = 0
    stop_rate = rnd.choice([0.0, 0.01])
    for _ in range(rnd.randint(50, 500)):
        if not owners or rnd.random() < 0.015:
            floor = high_watermark if rnd.random() < 0.5 else 0
            owners.append(Owner(store, len(owners) + 1, floor, seen))
        owner = rnd.choice(owners[-3:])
        action = rnd.random()
        if action < 0.35:
            number += 1
            batch = NamedBatch(number, rnd.randint(1, 4), rnd.randint(1, 4), rnd.random() < 0.7)
            if batch.is_acks_all and isinstance(owner.state, Writing) and owner.state.is_short:
                seen["refused at once"] += 1
            else:
                owner.feed(ev.ProduceArrived(batch))
        elif action < 0.5 and owner.is_write_scheduled:
            owner.is_write_scheduled = False
            owner.feed(ev.WriteDue(rnd.choice(OUTSTANDING)))
        elif action < 0.8:
            for _ in range(rnd.choice([1, 1, 5])):
                owner.run_one(rnd)
        elif action < 0.92:
            owner.sync(rnd)
        elif action < 0.95:
            owner.hint(rnd)
        elif action < 0.97:
            owner.break_writer(rnd)
        elif action < 0.985:
            store.is_full = rnd.random() < 0.3
            store.is_away = rnd.random() < 0.3
            store.nodes = rnd.choice([1, 2, 3, 3])
        elif rnd.random() < stop_rate * 20:
            owner.feed(ev.StopRequested())
        if isinstance(owner.state, Owning):
            high_watermark = max(high_watermark, owner.state.log.high_watermark)
    store.is_full = store.is_away = False
    last = Owner(store, len(owners) + 1, high_watermark, seen)
    owners.append(last)
    for _ in range(1000):
        last.run_one(rnd)
    assert isinstance(last.state, Writing), last.state
    assert last.state.log.high_watermark >= high_watermark, "a false high watermark was reported"
    check(store, owners)
    seen["acknowledged"] += sum(len(owner.acknowledged) for owner in owners)
    seen["owners"] += len(owners)
    return seen


def check(store: Store, owners: list[Owner]) -> None:
    log = store.log()
    offset = 0
    for batch in log:
        assert batch.base_offset == offset, "offsets are not dense"
        offset = batch.end_offset
    assert len({id(batch) for batch in log}) == len(log), "a batch is in the log twice"
    places = {id(batch) for batch in log}
    acknowledged = [batch for owner in owners for batch in owner.acknowledged]
    assert len({id(batch) for batch in acknowledged}) == len(acknowledged), "a batch was acknowledged twice"
    for batch in acknowledged:
        assert id(batch) in places, "an acknowledged batch is lost"
    for owner in owners:
        heard = [*owner.acknowledged, *owner.rejected]
        assert len({id(batch) for batch in heard}) == len(heard), "a batch was answered twice"


STATES_SEEN = (Writing, Mending, Idle, Blocked, Released)
