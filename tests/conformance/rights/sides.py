"""Both servers with the same users and ACLs: a listener for setting up, where everybody is a super user, and one with logins."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bmq.security.sasl.scram_keys import ITERATIONS_MIN, SHA_256, salted_password
from testing.processes import REPOSITORY, free_port
from testing.servers import BmqServer, KafkaServer, Server, without_listen
from testing.wire import WireClient
from tests.conformance.asker import Asker
from tests.conformance.rights.personas import PERSONAS, Persona
from tests.conformance.run import KAFKA_SETTINGS, start_all
from tests.conformance.world import ANSWER_WAIT_S, World
from tests.support.logged_in import LoggedIn

DATA: Final = REPOSITORY / ".cache" / "rights"
PASSWORD: Final = "of-every-persona"
_SALT: Final = b"of every persona"
_ALTER_SCRAM, _DESCRIBE_ACLS, _CREATE_ACLS, _DELETE_ACLS = (51, 0), (29, 3), (30, 3), (31, 3)
_ANY: Final = 1
_ANY_ACL: Final[Mapping[str, Any]] = {
    "resource_type_filter": _ANY,
    "resource_name_filter": None,
    "pattern_type_filter": _ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": _ANY,
    "permission_type": _ANY,
}


class Guests:
    """The personas at one server. Each has a connection of its own, made when it asks for the first time."""

    def __init__(self, world: World, port: int) -> None:
        self._world = world
        self._port = port
        self._askers: dict[str, Asker] = {}

    def of(self, persona: Persona) -> Asker:
        if persona.user not in self._askers:
            self._askers[persona.user] = Asker(lambda: self._login(persona))
        return self._askers[persona.user]

    def _login(self, persona: Persona) -> WireClient:
        wire = LoggedIn(self._port).scram(persona.user, PASSWORD).wire
        wire.settimeout(ANSWER_WAIT_S)
        return wire

    def make(self, personas: Sequence[Persona]) -> None:
        """Users and ACLs, until the server that answers knows them."""
        salted = salted_password(SHA_256, PASSWORD.encode(), _SALT, ITERATIONS_MIN)
        keys = {"mechanism": SHA_256.number, "iterations": ITERATIONS_MIN, "salt": _SALT, "salted_password": salted}
        upsertions = [{"name": one.user, **keys} for one in personas]
        self._world.call(*_ALTER_SCRAM, deletions=[], upsertions=upsertions)
        creations = [creation for one in personas for creation in one.creations()]
        self._create(creations)
        self._world.until(
            lambda: self._world.call(*_DESCRIBE_ACLS, **_ANY_ACL),
            lambda answer: sum(len(one["acls"]) for one in answer["resources"]) == len(creations),
        )

    def allow(self, everybody: Persona) -> None:
        """From here on everybody's ACLs are these, in place of earlier ones."""
        filters = {**_ANY_ACL, "principal_filter": everybody.principal}
        removed = self._world.call(*_DELETE_ACLS, filters=[filters])["filter_results"]
        assert not any(one["error_code"] for one in removed), removed
        creations = list(everybody.creations())
        self._create(creations)
        wanted = {tuple(one.values()) for one in creations}
        self._world.until(
            lambda: self._world.call(*_DESCRIBE_ACLS, **filters), lambda answer: _acls_in(answer) == wanted
        )

    def listed(self, **filters: Any) -> set[tuple[Any, ...]]:
        """What the server lists of the ACLs that the filters name, in the order of `Persona.creations`."""
        return _acls_in(self._world.call(*_DESCRIBE_ACLS, **{**_ANY_ACL, **filters}))

    def _create(self, creations: Sequence[Mapping[str, Any]]) -> None:
        made = self._world.call(*_CREATE_ACLS, creations=creations)["results"]
        assert not any(one["error_code"] for one in made), made

    def close(self) -> None:
        for asker in self._askers.values():
            asker.close()


def _acls_in(answer: Mapping[str, Any]) -> set[tuple[Any, ...]]:
    return {
        (one["resource_type"], one["resource_name"], one["pattern_type"], *acl.values())
        for one in answer["resources"]
        for acl in one["acls"]
    }


class Side:
    """One server, started: its `world` sets up, its `guests` ask."""

    def __init__(self, server: Server, port: int) -> None:
        self.world = World(server.name, server.port)
        self.guests = Guests(self.world, port)

    def start(self, personas: Sequence[Persona]) -> None:
        self.world.start()
        self.guests.make(personas)

    def close(self) -> None:
        self.guests.close()
        self.world.close()


class _Bmq(BmqServer):
    """Its listeners stand in the settings."""

    def set(self, configs: Mapping[str, str]) -> None:
        self.set_environment({"BMQ_KAFKA": json.dumps(configs)})

    def _arguments(self) -> list[str]:
        return without_listen(super()._arguments())


def _settings(plain: int, sasl: int) -> dict[str, str]:
    listeners = f"PLAINTEXT://127.0.0.1:{plain},SASL_PLAINTEXT://127.0.0.1:{sasl}"
    return {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": SHA_256.name,
        "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "delegation.token.secret.key": "a secret of this comparison",
        "connections.max.idle.ms": "86400000",  # a persona may have nothing to ask for long
    }


def bmq_server(directory: Path, sasl: int) -> Server:
    server = _Bmq(directory)
    server.set(_settings(server.port, sasl))
    return server


def kafka_server(directory: Path, sasl: int) -> Server:
    server = KafkaServer(directory, KAFKA_SETTINGS)
    settings = _settings(server.port, sasl)
    settings["listeners"] += f",CONTROLLER://127.0.0.1:{server.controller_port}"
    settings["listener.security.protocol.map"] += ",CONTROLLER:PLAINTEXT"
    server.set(settings)
    return server


BMQ: Final = "bmq"
KAFKA: Final = "kafka"
_MAKERS: Final[Mapping[str, Callable[[Path, int], Server]]] = {BMQ: bmq_server, KAFKA: kafka_server}


@contextmanager
def started(
    names: Sequence[str] = (BMQ, KAFKA), directory: Path = DATA, personas: Sequence[Persona] = PERSONAS
) -> Iterator[list[Side]]:
    """The sides of these servers, on new directories; gone afterwards."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    ports = [free_port() for _ in names]
    servers = [_MAKERS[name](directory / name, port) for name, port in zip(names, ports, strict=True)]
    sides: list[Side] = []
    try:
        start_all(servers)
        sides = [Side(server, port) for server, port in zip(servers, ports, strict=True)]
        for side in sides:
            side.start(personas)
        yield sides
    finally:
        for side in sides:
            side.close()
        for server in servers:
            server.close()
