"""A standalone server whose metadata failed ends, so that somebody starts it again: nobody in it would mend that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from bmq.metadata.state import ImpossibleRecord, MetadataState
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.metadata_records import MetadataRecord
from bmq.server.settings import load_settings
from bmq.server.standalone import MetadataOffline, StandaloneServer
from tests.fakes.store import FakeStore
from tests.simulation.clock import SimulatedClock
from tests.simulation.loop import VirtualTimeLoop
from tests.simulation.network import Network
from tests.support.asking import ask
from tests.unit.controller.support import describe, incremental

pytestmark = pytest.mark.unit


class Ground:
    """One store, and one server after the other, on virtual time."""

    def __init__(self) -> None:
        self.loop = VirtualTimeLoop(time_limit_s=600.0)
        self.network = Network(self.loop, Random(1))
        self.store = FakeStore()
        self._count = 0

    def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self.loop.run_until_complete(main())
        finally:
            self.loop.discard()

    async def start(self, **settings: str) -> StandaloneServer:
        self._count += 1
        host = f"server-{self._count}"
        loaded = load_settings({"listen": f"{host}:9092", **settings}, None)
        server = StandaloneServer(
            loaded.settings, self.store.client(host), SimulatedClock(self.loop), Random(self._count)
        )
        await server.start()
        return server

    async def make_topic(self, server: StandaloneServer, name: str) -> None:
        roles = server.inspect()
        assert roles is not None
        await roles.controller.auto_create_topic(name)


async def failure_of(server: StandaloneServer) -> str:
    """Within a few seconds: it asks every second."""
    with pytest.raises(MetadataOffline) as failure:
        await asyncio.wait_for(asyncio.shield(server.failed), 3.0)
    assert not server.replaced.done()
    await server.stop()
    return str(failure.value)


def test_a_server_ends_when_its_metadata_log_went_offline() -> None:
    ground = Ground()

    async def main() -> None:
        server = await ground.start()
        await ground.make_topic(server, "before")
        ground.store.faults.append_raises_rate = 1.0
        with pytest.raises(KafkaError) as refusal:
            await ground.make_topic(server, "lost")
        assert refusal.value.code is ErrorCode.NOT_CONTROLLER
        assert "metadata log failed" in await failure_of(server)
        ground.store.faults.append_raises_rate = 0.0
        again = await ground.start()
        await ground.make_topic(again, "after")
        assert {"before", "after"} <= again.image.topics.keys()
        await again.stop()

    ground.run(main)


def test_a_server_ends_when_a_record_was_applied_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground()

    def refuse(_: MetadataState, record: MetadataRecord) -> None:
        raise ImpossibleRecord(f"{type(record).__name__} cannot be applied")

    async def main() -> None:
        server = await ground.start()
        with monkeypatch.context() as patched:
            patched.setattr(MetadataState, "replay", refuse)
            with pytest.raises(KafkaError):
                await ground.make_topic(server, "half")
        assert "could not be applied" in await failure_of(server)
        again = await ground.start()
        assert "half" in again.image.topics
        await again.stop()

    ground.run(main)


def test_a_server_that_was_replaced_has_not_failed() -> None:
    ground = Ground()

    async def main() -> None:
        old = await ground.start()
        new = await ground.start()
        await asyncio.wait_for(asyncio.shield(old.replaced), 3.0)
        assert not old.failed.done() and not new.replaced.done()
        await old.stop()
        await new.stop()

    ground.run(main)


def test_altered_broker_configs_are_followed_at_once() -> None:
    ground = Ground()

    async def main() -> None:
        server = await ground.start()
        roles = server.inspect()
        assert roles is not None and server.manager is not None
        await ask(
            roles.controller,
            incremental(
                4,
                "",
                ("producer.id.expiration.ms", 0, "1234"),
                ("max.connections", 0, "11"),
                ("max.connections.per.ip", 0, "7"),
                ("group.consumer.assignment.interval.ms", 0, "77"),
                ("group.streams.assignment.interval.ms", 0, "88"),
            ),
        )
        assert server.manager.context.producer_id_expiration_ms == 1234
        assert roles.groups.config.consumer.assignment_interval_ms == 77
        assert roles.groups.config.streams.assignment_interval_ms == 88
        limits = roles.services.connection_limits
        assert limits is not None and (limits().total, limits().per_host) == (11, 7)
        await server.stop()
        again = await ground.start()
        roles = again.inspect()
        assert roles is not None and roles.groups.config.consumer.assignment_interval_ms == 77
        assert again.manager is not None and again.manager.context.producer_id_expiration_ms == 1234
        await again.stop()

    ground.run(main)


def test_the_level_of_the_log_is_shown_as_it_is() -> None:
    ground = Ground()

    async def main() -> None:
        server = await ground.start(log_level="warning")
        roles = server.inspect()
        assert roles is not None
        (found,) = (await ask(roles.controller, describe((8, "1", None)))).results
        assert [(config.name, config.value) for config in found.configs] == [("root", "WARN")]
        await server.stop()

    ground.run(main)
