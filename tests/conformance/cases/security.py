"""SASL, ACLs, delegation tokens, quotas and SCRAM credentials, on a listener without authentication."""

from __future__ import annotations

from typing import Any, Final

from tests.conformance.case import Cases
from tests.conformance.world import World

CASES: Final = Cases()
HANDSHAKE, AUTHENTICATE = 17, 36
DESCRIBE_ACLS, CREATE_ACLS, DELETE_ACLS = 29, 30, 31
CREATE_TOKEN, RENEW_TOKEN, EXPIRE_TOKEN, DESCRIBE_TOKENS = 38, 39, 40, 41
QUOTAS, ALTER_QUOTAS, SCRAM, ALTER_SCRAM = 48, 49, 50, 51


@CASES.add(HANDSHAKE, "where nobody authenticates", valid=True)
def _(world: World, version: int) -> Any:
    return {"mechanism": "PLAIN"}


@CASES.add(HANDSHAKE, "a mechanism that does not exist")
def _(world: World, version: int) -> Any:
    return {"mechanism": "NONE"}


@CASES.add(AUTHENTICATE, "where nobody authenticates", valid=True)
def _(world: World, version: int) -> Any:
    return {"auth_bytes": b"\0user\0secret"}


ANY: Final = 1
FILTER: Final = {
    "resource_type_filter": ANY,
    "resource_name_filter": None,
    "pattern_type_filter": ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": ANY,
    "permission_type": ANY,
}


@CASES.add(DESCRIBE_ACLS, "all", valid=True)
def _(world: World, version: int) -> Any:
    return FILTER


@CASES.add(DESCRIBE_ACLS, "a type that does not exist")
def _(world: World, version: int) -> Any:
    return {**FILTER, "resource_type_filter": 77}


@CASES.add(DESCRIBE_ACLS, "of a principal that has none")
def _(world: World, version: int) -> Any:
    return {**FILTER, "principal_filter": "User:none"}


@CASES.add(CREATE_ACLS, "one", valid=True)
def _(world: World, version: int) -> Any:
    creation = {
        "resource_type": 2,
        "resource_name": world.name(),
        "resource_pattern_type": 3,
        "principal": "User:any",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return {"creations": [creation, {**creation, "principal": "none"}]}


@CASES.add(CREATE_ACLS, "nothing")
def _(world: World, version: int) -> Any:
    return {"creations": []}


@CASES.add(DELETE_ACLS, "all", valid=True)
def _(world: World, version: int) -> Any:
    return {"filters": [FILTER]}


@CASES.add(DELETE_ACLS, "of a principal that has none")
def _(world: World, version: int) -> Any:
    return {"filters": [{**FILTER, "principal_filter": "User:none"}]}


@CASES.add(CREATE_TOKEN, "where nobody authenticates", valid=True)
def _(world: World, version: int) -> Any:
    return {"renewers": [], "max_lifetime_ms": -1}


@CASES.add(RENEW_TOKEN, "an unknown token", valid=True)
def _(world: World, version: int) -> Any:
    return {"hmac": b"none", "renew_period_ms": -1}


@CASES.add(EXPIRE_TOKEN, "an unknown token", valid=True)
def _(world: World, version: int) -> Any:
    return {"hmac": b"none", "expiry_time_period_ms": -1}


@CASES.add(DESCRIBE_TOKENS, "all", valid=True)
def _(world: World, version: int) -> Any:
    return {"owners": None}


def quota(user: str | None, key: str, value: float, *, remove: bool = False, kind: str = "user") -> dict[str, Any]:
    return {
        "entity": [{"entity_type": kind, "entity_name": user}],
        "ops": [{"key": key, "value": value, "remove": remove}],
    }


@CASES.add(ALTER_QUOTAS, "a user's rate", valid=True)
def _(world: World, version: int) -> Any:
    return {"entries": [quota(world.name(), "producer_byte_rate", 1e9)], "validate_only": False}


@CASES.add(ALTER_QUOTAS, "good and bad entries")
def _(world: World, version: int) -> Any:
    return {
        "entries": [
            quota(world.name("good"), "producer_byte_rate", 1e9),
            quota(world.name("key"), "no.such.key", 1.0),
            quota(world.name("negative"), "producer_byte_rate", -1.0),
            quota(world.name("kind"), "producer_byte_rate", 1.0, kind="none"),
            quota(world.name("remove"), "producer_byte_rate", 0.0, remove=True),
            quota("", "producer_byte_rate", 1e9),
        ],
        "validate_only": False,
    }


@CASES.add(ALTER_QUOTAS, "only looked at")
def _(world: World, version: int) -> Any:
    return {"entries": [quota(world.name(), "producer_byte_rate", 1e9)], "validate_only": True}


@CASES.add(ALTER_QUOTAS, "nothing")
def _(world: World, version: int) -> Any:
    return {"entries": [], "validate_only": False}


@CASES.add(QUOTAS, "a user's", valid=True)
def _(world: World, version: int) -> Any:
    served = world.served.get(ALTER_QUOTAS)
    if served is not None:
        world.call(ALTER_QUOTAS, 1, entries=[quota(world.name(), "producer_byte_rate", 1e9)])
    component = {"entity_type": "user", "match_type": 0, "match": world.name()}
    asked = {"components": [component], "strict": True}
    if served is not None:  # Kafka's brokers hear of it from their controller
        world.until(lambda: world.call(QUOTAS, 1, **asked), lambda answer: bool(answer["entries"]))
    return asked


@CASES.add(QUOTAS, "without names")
def _(world: World, version: int) -> Any:
    return {"components": [{"entity_type": "user", "match_type": 0, "match": world.name("none")}], "strict": False}


@CASES.add(QUOTAS, "a match type that does not exist")
def _(world: World, version: int) -> Any:
    return {"components": [{"entity_type": "user", "match_type": 9, "match": None}], "strict": False}


@CASES.add(QUOTAS, "an entity type that does not exist")
def _(world: World, version: int) -> Any:
    return {"components": [{"entity_type": "none", "match_type": 0, "match": "x"}], "strict": False}


@CASES.add(QUOTAS, "an entity type twice")
def _(world: World, version: int) -> Any:
    return {"components": [{"entity_type": "user", "match_type": 0, "match": "x"}] * 2, "strict": False}


@CASES.add(SCRAM, "without names", valid=True)
def _(world: World, version: int) -> Any:
    return {"users": [{"name": world.name("none")}]}


@CASES.add(SCRAM, "a user twice, and an empty name")
def _(world: World, version: int) -> Any:
    return {"users": [{"name": world.name("none")}, {"name": world.name("none")}, {"name": ""}]}


def credential(user: str, mechanism: int = 1, iterations: int = 4_096) -> dict[str, Any]:
    return {
        "name": user,
        "mechanism": mechanism,
        "iterations": iterations,
        "salt": b"salt",
        "salted_password": b"x" * 32,
    }


@CASES.add(ALTER_SCRAM, "a new user", valid=True)
def _(world: World, version: int) -> Any:
    return {"deletions": [], "upsertions": [credential(world.name())]}


@CASES.add(ALTER_SCRAM, "good and bad users")
def _(world: World, version: int) -> Any:
    users = [
        credential(world.name("good")),
        credential(world.name("few"), iterations=1),
        credential(world.name("many"), iterations=10**9),
        credential(world.name("mechanism"), 9),
        credential(""),
        credential(world.name("twice")),
        credential(world.name("twice")),
    ]
    return {"deletions": [{"name": world.name("none"), "mechanism": 1}], "upsertions": users}


@CASES.add(ALTER_SCRAM, "nothing")
def _(world: World, version: int) -> Any:
    return {"deletions": [], "upsertions": []}
