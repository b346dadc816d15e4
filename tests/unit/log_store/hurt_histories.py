"""Seeded histories in which nodes die, hang and return, and clients die with files open, played on two stores at once.

Where a break leaves a choice (which unacknowledged bytes are kept) each store may choose for itself: any prefix of what was
sent that holds all that was acknowledged. Such a file is compared with what was sent, and deleted, before it goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final, Protocol

from bmq.log.store import Durability, SegmentStore
from testing.hdfs import until
from tests.fakes.store import FakeClient, FakeStore, Faults
from tests.unit.log_store import rivals
from tests.unit.log_store.rivals import CLIENTS, PARTITION, Handle, Players, Step, outcome_of

NODES: Final = 3
_EPOCH: Final = 5
_WEIGHTS: Final = {
    "create": 10,
    "append": 18,
    "burst": 6,
    "prove": 5,
    "close": 4,
    "mend": 7,
    "take_over": 4,
    "write_file": 3,
    "read": 6,
    "read_file": 3,
    "replicas": 7,
    "list": 3,
    "die": 4,
    "hurt": 9,
    "heal": 4,
}


class Site(Protocol):
    """One store whose nodes and clients can be hurt. `clients`: as they are now."""

    clients: list[SegmentStore]

    async def lose(self, node: int) -> None:
        """It dies; its connections end."""

    async def hang(self, node: int) -> None:
        """It stands still; its connections stay."""

    async def bring_back(self, node: int) -> None:
        """It serves again, and the others know."""

    async def die(self, client: int) -> None:
        """The process is gone without a word, and another one has taken its place in `clients`."""


class FakeSite:
    def __init__(self, random: Random) -> None:
        self.store = FakeStore(random, Faults(ack_timeout_s=0.01), node_count=NODES)
        self.clients: list[SegmentStore] = [self.store.client(f"client-{number}") for number in range(CLIENTS)]
        self._names = list(self.store.nodes.states)

    async def lose(self, node: int) -> None:
        self.store.lose_node(self._names[node])

    async def hang(self, node: int) -> None:
        self.store.lose_node(self._names[node], is_hung=True)

    async def bring_back(self, node: int) -> None:
        self.store.return_node(self._names[node])

    async def die(self, client: int) -> None:
        dead = self.clients[client]
        assert isinstance(dead, FakeClient)
        dead.kill()
        self.clients[client] = self.store.client(f"{dead.name}'")


def draw_hurt_history(seed: int, length: int = 40) -> list[Step]:
    """The steps of a seed. At most one node hangs, and not while another is away: together they hold lease recovery up."""
    dice = Random(seed)
    kinds, weights = list(_WEIGHTS), list(_WEIGHTS.values())
    steps: list[Step] = [("claim", 0, (_EPOCH,))]
    for client, durability in enumerate(Durability):
        steps += [("create", client, (_path(client), durability)), ("append", client, (0, _data(dice)))]
    down: dict[int, str] = {}
    for number in range(length):
        kind = dice.choices(kinds, weights)[0]
        client = dice.randrange(CLIENTS)
        # A node that hangs costs every call its patience.
        if down and (kind == "heal" or ("hang" in down.values() and dice.random() < 0.3)):
            node = dice.choice(list(down))
            del down[node]
            steps.append(("bring_back", 0, (node,)))
            continue
        if kind == "hurt":
            how = "hang" if not down and dice.random() < 0.5 else "lose"
            left = [node for node in range(NODES) if node not in down]
            # All three are seldom away at once.
            if "hang" not in down.values() and (len(left) > 1 or (left and dice.random() < 0.3)):
                node = dice.choice(left)
                down[node] = how
                steps.append((how, 0, (node,)))
            continue
        if kind != "heal":
            steps.append((kind, client, _arguments(kind, dice, f"{number:08d}")))
    return [*steps, *(("bring_back", 0, (node,)) for node in down)]


def _path(number: int | str) -> str:
    return f"{PARTITION}/{_EPOCH:08d}.open/{number:0>8}.log"


def _arguments(kind: str, dice: Random, name: str) -> tuple[Any, ...]:
    """Names are used once, and nothing is renamed: that is for the other histories."""
    match kind:
        case "create":
            return _path(name), dice.choice(list(Durability))
        case "write_file":
            return _path(name), dice.randbytes(dice.choice((0, 1, 4097, 150_000)))
        case "list":
            return (f"{PARTITION}/{_EPOCH:08d}.open",)
        case "take_over" | "replicas" | "read_file":
            return (rivals.Some(_path(0), dice.randrange(1000)),)
        case "read":
            return (
                rivals.Some(_path(0), dice.randrange(1000)),
                dice.choice((0, 1, 300, 5000)),
                dice.choice((1, 100, 9000)),
            )
        case "append":
            return dice.choice((0, 0, 1, 2)), _data(dice)
        case "burst":
            return dice.choice((0, 0, 1, 2)), [_data(dice) for _ in range(dice.randint(2, 6))]
        case "die":
            return (_data(dice),)
        case _:
            return rivals.arguments_of(kind, dice)


def _data(dice: Random) -> bytes:
    """Never nothing: an append of nothing need not reach a node."""
    return dice.randbytes(dice.choice((1, 100, 511, 512, 4095, 4096, 4097, 20_000, 150_000)))


@dataclass
class HurtPlayers(Players):
    """`sites`: the first one is the fake, whose outcomes are taken for what has to be."""

    sites: Sequence[Site] = ()
    sent: dict[int, bytearray] = field(default_factory=dict)  # by file id in the first store
    acked: dict[int, int] = field(default_factory=dict)
    down: set[int] = field(default_factory=set)
    deaths: list[int] = field(default_factory=lambda: [0] * CLIENTS)
    patience_s: float = 0.5

    @classmethod
    def of(cls, *sites: Site) -> HurtPlayers:
        return cls(stores=[site.clients for site in sites], sites=sites)

    def outcome_name(self, kind: str, outcome: Any) -> str:
        return str(outcome) if kind in ("create", "mend") else super().outcome_name(kind, outcome)

    # --- faults

    async def _lose(self, client: int, node: int) -> list[Any]:
        self.down.add(node)
        await self._hurt("lose", node)
        return []

    async def _hang(self, client: int, node: int) -> list[Any]:
        self.down.add(node)
        await self._hurt("hang", node)
        return []

    async def _bring_back(self, client: int, node: int) -> list[Any]:
        await self._hurt("bring_back", node)
        self.down.discard(node)
        return []

    async def _hurt(self, how: str, node: int) -> None:
        for site in self.sites:
            await getattr(site, how)(node)
        self.outcomes[how] = self.outcomes.get(how, 0) + 1

    async def _die(self, client: int, data: bytes) -> list[Any]:
        """With its last append under way. Whoever comes next has a name of its own."""
        name = self._holder(client)
        own = [handle for handle in self.handles if handle.holder == name and not handle.is_let_go]
        last = next((handle for handle in reversed(own) if not handle.is_mended), None)
        under_way = []
        if last is not None:
            self._note_sent(last, [data])
            under_way = [writer.append([data]) for writer in last.writers]
        for handle in own:
            handle.is_let_go = True
        for site in self.sites:
            await site.die(client)
        for answer in under_way:
            answer.cancel()  # type: ignore[attr-defined]
        self.deaths[client] += 1
        self.outcomes["die"] = sum(self.deaths)
        return []

    def _holder(self, client: int) -> str:
        return f"holder-{client}-{self.deaths[client]}"

    # --- writers

    async def _burst(self, client: int, back: int, pieces: list[bytes]) -> list[Any]:
        handle = await self._handle(back)
        if handle is None:
            return []
        self._note_sent(handle, pieces)
        outcomes = await super()._burst(client, back, pieces)
        for outcome in outcomes:
            if not isinstance(outcome, str):
                self._note_acked(handle, [length for length in outcome if isinstance(length, int)])
        return outcomes

    async def _create(self, client: int, path: str, durability: Durability) -> list[Any]:
        """On as many nodes as are there."""
        known = len(self.handles)
        outcomes = await super()._create(client, path, durability)
        for handle in self.handles[known:]:
            self.sent[handle.file_ids[0]] = bytearray()
            return [writer.replicas for writer in handle.writers]
        return outcomes

    async def _mend(self, client: int, back: int) -> list[Any]:
        handle = await self._handle(back)
        outcomes = await super()._mend(client, back)
        if handle is None or not outcomes or isinstance(outcomes[0], str):
            return outcomes
        replicas = [writer.replicas for writer in handle.writers]
        return await self._agreed(handle, outcomes) and replicas

    async def _take_over(self, client: int, path: str, is_holder_known: bool = True) -> list[Any]:
        """By the other's name; what it wrote stays in its directory, since nobody but the closing is of interest here."""
        handle = await self._handle_of(path)
        holder = await self._holder_of(path)
        outcomes = await self._all(client, "take_over", path, previous_holder=holder)
        if handle is None:
            return outcomes
        if not isinstance(outcomes[0], str):
            handle.is_let_go = True
        return await self._agreed(handle, outcomes)

    async def _close(self, client: int, back: int) -> list[Any]:
        handle = await self._handle(back)
        outcomes = await super()._close(client, back)
        return outcomes if handle is None else await self._agreed(handle, outcomes)

    async def _agreed(self, handle: Handle, outcomes: list[Any]) -> list[Any]:
        """The outcomes, without lengths that may differ; a file whose lengths do is deleted."""
        if any(isinstance(outcome, str) for outcome in outcomes):
            return outcomes
        file_id = handle.file_ids[0]
        sent, acked = self.sent[file_id], self.acked.get(file_id, 0)
        assert all(acked <= length <= len(sent) for length in outcomes), (handle.writers[0].path, acked, outcomes)
        path = handle.writers[0].path
        for clients, length in zip(self.stores, outcomes, strict=True):
            found = await clients[0].status(path)
            if found is None or not length:
                continue
            content = await outcome_of(clients[0].read(path, file_id=found.file_id, position=0, length_bytes=length))
            assert isinstance(content, str) or bytes(content) == sent[:length], path
        if len(set(outcomes)) > 1:
            self.outcomes["lengths differ"] = self.outcomes.get("lengths differ", 0) + 1
            await self._all(1, "delete", path)
        return ["closed"] * len(outcomes)

    def _note_sent(self, handle: Handle, pieces: Sequence[bytes]) -> None:
        self.sent[handle.file_ids[0]] += b"".join(pieces)

    def _note_acked(self, handle: Handle, lengths: Sequence[int]) -> None:
        file_id = handle.file_ids[0]
        self.acked[file_id] = max((self.acked.get(file_id, 0), *lengths))

    async def _handle_of(self, path: str) -> Handle | None:
        status = await self.stores[0][0].status(path)
        return next((handle for handle in self.handles if status and handle.file_ids[0] == status.file_id), None)

    # --- what is there

    async def _replicas(self, client: int, path: str) -> list[Any]:
        """Of a closed file HDFS makes more by itself, and hears of those there are a little later."""
        wanted, *others = await self._all(client, "count_replicas", path)
        if not others or isinstance(wanted, str):
            return [wanted, *others]
        status = await self.stores[0][client].status(path)
        if status is None or status.is_open:
            # Of an open file without a byte HDFS counts those that go on with it; nobody asks about such a one.
            return [wanted, *others] if await self.stores[0][client].visible_length(path) else []
        most = max(wanted, NODES - len(self.down)) if status.length_bytes else wanted
        for clients in self.stores[1:]:
            store = clients[client]

            async def are_there(store: SegmentStore = store) -> bool:
                return bool(wanted <= await store.count_replicas(path) <= most)

            await until(are_there, self.patience_s, f"{path} lies on {wanted} to {most} nodes")
        return [wanted]

    async def _read(self, client: int, path: str, position: int, length_bytes: int) -> list[Any]:
        """Beyond what was acknowledged each store has its own bytes, and a copy may have been made meanwhile."""
        handle = await self._handle_of(path)
        if handle is not None and position + length_bytes > self.acked.get(handle.file_ids[0], 0):
            return []
        return self._or_copied(await super()._read(client, path, position, length_bytes))

    async def _read_file(self, client: int, path: str) -> list[Any]:
        return self._or_copied(await super()._read_file(client, path))

    def _or_copied(self, outcomes: list[Any]) -> list[Any]:
        return [] if outcomes[0] == "StorageUnavailable" else outcomes

    async def _compare_files(self) -> None:
        for path, status in await rivals.tree_of(self.stores[0][0], PARTITION):
            if not status.is_directory:
                outcomes = await self._take_over(1, path)
                assert all(outcome == outcomes[0] for outcome in outcomes), (path, outcomes)
        await super()._compare_files()


async def play_hurt(seed: int, *others: Site, length: int = 40, patience_s: float = 0.1) -> dict[str, int]:
    """How often what happened. Raises AssertionError where the others differ from the fake.

    `patience_s`: how long the others may take to copy a file to nodes that came back.
    """
    players = HurtPlayers.of(FakeSite(Random(seed)), *others)
    players.patience_s = patience_s
    await players.play(draw_hurt_history(seed, length))
    return players.outcomes
