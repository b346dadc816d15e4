"""Kafka's answers to a sample of the comparison, kept in the tree, so that the gate needs no Kafka for it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from tests.conformance.case import Case
from tests.conformance.rights.asked import READ_ONLY, asked_cases, wanted
from tests.conformance.rights.personas import ALL_BUT, EVERYTHING, NOBODY, ONLY, Persona
from tests.conformance.rights.run import Asked, ask_all, versions_of
from tests.conformance.rights.sides import Side

RECORDED: Final = Path(__file__).with_name("kafka_answers.json")
_TOO_LONG: Final = frozenset({(ApiKey.API_VERSIONS, "a client's first request"), (ApiKey.DESCRIBE_ACLS, "all")})
"""Nobody is refused the first, and the second lists the ACLs of all personas."""


def record(kafka: Side) -> int:
    """Writes the file; how many answers are in it."""
    answers = {key_of(one): one.answers[0] for one in sample([kafka])}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(answer)}" for key, answer in answers.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n")
    return len(answers)


def recorded() -> dict[str, Any]:
    """Kafka's normalized answers, by `key_of`."""
    found: dict[str, Any] = json.loads(RECORDED.read_text())
    return found


def key_of(asked: Asked) -> str:
    return f"{_case_key(asked.api_key, asked.version, asked.case)}: {asked.persona}"


def sample(sides: Sequence[Side], kafka_answers: Collection[str] = ()) -> Iterator[Asked]:
    """Requests that change nothing, in one version, by those whose rights matter. `kafka_answers`: keys of answers; where
    they are given, the versions are theirs, else the newest ones.
    """
    taken = {key.rpartition(":")[0] for key in kafka_answers}

    def versions(sides: Sequence[Side], case: Case) -> Sequence[int]:
        served = versions_of(sides, case)
        return [one for one in served if _case_key(case.api_key, one, case.name) in taken] if taken else served[-1:]

    cases = [one for one in asked_cases() if one.api_key in READ_ONLY and (one.api_key, one.name) not in _TOO_LONG]
    return ask_all(sides, cases, _few, versions)


def _case_key(api_key: int, version: int, case: str) -> str:
    return f"{api_key} {version} {case}"


def _few(case: Case) -> Iterator[Persona]:
    yield NOBODY
    for right in wanted(case.api_key):
        yield ONLY[right]
        yield ALL_BUT[right]
    yield EVERYTHING
