"""Bytes of a client at a whole server, on virtual time: handlers, coordinators, controller and log behind the decoders."""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import Iterator
from random import Random
from typing import Any, Final

import structlog

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.batch_records import Record, encode_batch
from bmq.protocol.codec import decode, encode_request, message_format
from bmq.protocol.errors import MalformedMessage
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.proxy.dispatch import HANDLERS, HOT_HANDLERS
from bmq.proxy.request_answers import WAIT_LONG
from bmq.server.settings import load_settings
from bmq.server.standalone import StandaloneServer
from tests.fakes.store import FakeStore
from tests.fuzz.mutation import changed
from tests.fuzz.random_messages import changed_message, random_message
from tests.fuzz.target import Target
from tests.simulation.clock import SimulatedClock
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network

INPUTS_PER_SERVER: Final = 500
"""Then a new one starts: what clients make stays in its store, which is in memory."""
ANSWERED_WITHIN_S: Final = 400.0
"""Of virtual time. Only a member of a group may wait longer, for others, as long as it asked for itself."""
_HEAD_BYTES: Final = 2
_FAULTS: Final = frozenset({"handler_failed", "lost_callback_failed", "effect_failed"})
_API_KEYS: Final = tuple(APIS)
_BATCH: Final = bytes(encode_batch([Record(b"k", b"v", (), 1_700_000_000_000)]))


class _Client(asyncio.Protocol):
    def __init__(self, ended: asyncio.Event) -> None:
        self.received = bytearray()
        self.ended = ended

    def data_received(self, data: bytes) -> None:
        self.received += data
        if len(self.received) >= 4 + int.from_bytes(self.received[:4], "big"):
            self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class _Ground:
    """One server, and its faults as its log tells them."""

    def __init__(self) -> None:
        self.loop = VirtualTimeLoop(time_limit_s=1e9)
        Network(self.loop, Random(1))
        self.inputs = 0
        self.loop.run_until_complete(self._start())

    async def _start(self) -> None:
        loaded = load_settings({"listen": "server:9092"}, None)
        store = FakeStore().client("server")
        self.server = StandaloneServer(loaded.settings, store, SimulatedClock(self.loop), Random(1))
        await self.server.start()
        topic = CreatableTopic(name="orders", num_partitions=2, replication_factor=1)
        await self._ask(encode_request(ApiKey.CREATE_TOPICS, 7, 1, "fuzz", CreateTopicsRequest(topics=[topic])))

    def ask(self, frame: bytes) -> bytes | None:
        self.inputs += 1
        return self.loop.run_until_complete(self._ask(frame))

    async def _ask(self, frame: bytes) -> bytes | None:
        """The answer; None: the connection was closed."""
        client = _Client(asyncio.Event())
        transport, _ = await self.loop.create_connection(lambda: client, "server", 9092)
        transport.write(len(frame).to_bytes(4, "big") + frame)
        await asyncio.wait_for(client.ended.wait(), ANSWERED_WITHIN_S)
        transport.close()
        return bytes(client.received[4:]) or None

    def stop(self) -> None:
        self.loop.run_until_complete(self.server.stop())
        self.loop.discard()


_ground: _Ground | None = None
_faults: list[dict[str, Any]] = []


def _note(logger: Any, method: str, event: Any) -> Any:
    if event.get("event") in _FAULTS:
        _faults.append(dict(event))
    raise structlog.DropEvent


def _discard() -> None:
    global _ground
    ground, _ground = _ground, None
    if ground is not None:
        ground.loop.discard()


def check(data: bytes) -> bool:
    """The first byte says which API, the second which version; the rest is the body. It is answered, or closed."""
    global _ground
    if len(data) < _HEAD_BYTES:
        return False
    structlog.configure(processors=[_note], cache_logger_on_first_use=False)
    if _ground is None or _ground.inputs >= INPUTS_PER_SERVER:
        _discard()
        _ground = _Ground()
        atexit.register(_discard)
    api_key, version = _kind(data)
    _faults.clear()
    head = encode_request(api_key, version, 7, "fuzz", message_format("request", api_key).message_class())
    if api_key not in HANDLERS and api_key not in HOT_HANDLERS:
        return False  # it is not announced
    if api_key is ApiKey.PRODUCE and _has_no_answer(version, data[_HEAD_BYTES:]):
        return False
    frame = head[: _head_bytes(api_key, version)] + data[_HEAD_BYTES:]
    try:
        answer = _ground.ask(frame)
    except TimeoutError:
        _discard()
        assert api_key in WAIT_LONG, f"{api_key.name} {version} is not answered"
        return False
    except BaseException:
        _discard()
        raise
    assert not _faults, f"{api_key.name} {version}: {_faults[0]}"
    assert not _ground.loop.failures, f"{api_key.name} {version}: {_ground.loop.failures[0]}"
    return answer is not None


def _has_no_answer(version: int, body: bytes) -> bool:
    """acks=0."""
    try:
        return decode("request", ApiKey.PRODUCE, version, body).acks == 0
    except MalformedMessage:
        return False


def _head_bytes(api_key: ApiKey, version: int) -> int:
    api = APIS[api_key]
    is_flexible = api.flexible_from is not None and version >= api.flexible_from
    return 10 + len(b"fuzz") + is_flexible


def _kind(data: bytes) -> tuple[ApiKey, int]:
    api_key = _API_KEYS[data[0] % len(_API_KEYS)]
    api = APIS[api_key]
    return api_key, api.version_min + data[1] % (api.version_max - api.version_min + 1)


def _body(api_key: ApiKey, version: int, dice: Random, before: Any = None) -> bytes:
    record_format = message_format("request", api_key)
    entity = record_format.entity(version)
    message = random_message(entity, dice) if before is None else changed_message(entity, before, dice)
    out = encode_request(api_key, version, 7, "fuzz", message)
    return out[_head_bytes(api_key, version) :]


def seeds() -> Iterator[bytes]:
    dice = Random(8)
    for number, api_key in enumerate(_API_KEYS):
        for offset in range(APIS[api_key].version_max - APIS[api_key].version_min + 1):
            head = bytes((number, offset))
            yield head + _body(*_kind(head), dice)


def mutate(data: bytes, dice: Random) -> bytes:
    """Another message of the API, or of any; a few are changed in their bytes."""
    head = data[:_HEAD_BYTES] if len(data) >= _HEAD_BYTES and dice.randrange(3) else dice.randbytes(_HEAD_BYTES)
    out = head + _body(*_kind(head), dice)
    return changed(out, dice, (_BATCH,)) if not dice.randrange(3) else out


TARGET: Final = Target("server", seeds, check, ("bmq.proxy", "bmq.coordinator", "bmq.controller"), mutate)
