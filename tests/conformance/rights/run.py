"""Sends each request as every persona that its answer may tell apart, to both servers, and compares what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from bmq.protocol.apis import ApiKey
from tests.conformance import codec
from tests.conformance.answers import CLOSED, normalized, only
from tests.conformance.asker import Asker
from tests.conformance.case import Body, Case, NotInThisVersion
from tests.conformance.compare import Difference, differences
from tests.conformance.rights.asked import READ_ONLY, personas
from tests.conformance.rights.personas import Persona
from tests.conformance.rights.sides import Side
from tests.conformance.run import NOT_SET_UP, NOT_YET, NOT_YET_MAX_S, error_codes, served_by, without
from tests.conformance.schemas import api_name
from tests.conformance.world import POLL_INTERVAL_S, SetupFailed, World

REFUSALS: Final = frozenset({29, 30, 31, 53, 55, 64, 65})
"""TOPIC_, GROUP_, CLUSTER_, TRANSACTIONAL_ID_, DELEGATION_TOKEN_AUTHORIZATION_FAILED, OPERATION_NOT_ATTEMPTED,
REQUEST_NOT_ALLOWED: an answer with no other code has changed nothing."""

NEWS_MAX_S: Final = 10.0
Answers = list[Any]


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as one persona, and the normalized answers by side."""

    api_key: int
    version: int
    case: str
    persona: str
    answers: Answers

    @property
    def differences(self) -> list[Difference]:
        """Of two sides."""
        ours, theirs = self.answers
        if ours.get("outcome") == NOT_SET_UP:
            return [Difference("", ours, theirs)]
        return differences(ours, theirs)


def versions_of(sides: Sequence[Side], case: Case) -> list[int]:
    """Those that all sides serve and the case is for."""
    worlds = [side.world for side in sides]
    ranges = served_by(worlds[0], worlds[-1]).get(case.api_key)
    if ranges is None or ranges.bmq is None or ranges.kafka is None:
        return []
    return [one for one in ranges.bmq if one in ranges.kafka and case.versions(one)]


def all_versions(sides: Sequence[Side], not_asked: Collection[int]) -> set[tuple[int, int]]:
    """Each API in each version that all sides serve, without `not_asked`."""
    worlds = [side.world for side in sides]
    return {
        (api_key, version)
        for api_key, ranges in served_by(worlds[0], worlds[-1]).items()
        if ranges.bmq is not None and ranges.kafka is not None and api_key not in not_asked
        for version in ranges.bmq
        if version in ranges.kafka
    }


def ask_all(
    sides: Sequence[Side],
    cases: Sequence[Case],
    who: Callable[[Case], Iterator[Persona]] = personas,
    versions: Callable[[Sequence[Side], Case], Sequence[int]] = versions_of,
    tell: Callable[[str], None] = lambda _: None,
) -> Iterator[Asked]:
    """In the order of the cases. Both sides are asked at the same time."""
    with ThreadPoolExecutor(len(sides)) as pool:
        for case in cases:
            began, count = time.monotonic(), 0
            for version in versions(sides, case):
                for asked in _in_version(pool, sides, case, version, who(case)):
                    count += 1
                    yield asked
            tell(f"{api_name(case.api_key)}: {case.name}: {count} requests, {time.monotonic() - began:.1f} s")


def _in_version(
    pool: Executor, sides: Sequence[Side], case: Case, version: int, who: Iterator[Persona]
) -> Iterator[Asked]:
    bodies: list[Body | Any] = []
    for persona in who:
        if not bodies:
            scope = f"{api_name(case.api_key)} {case.name} v{version} {persona.name}"
            bodies = list(pool.map(lambda side: _set_up(side.world, scope, case, version), sides))  # noqa: B023
            if None in bodies:
                return
        deadline = time.monotonic() + NEWS_MAX_S
        while True:
            answers = list(
                pool.map(lambda side, body: _answer(side, body, case, version, persona), sides, bodies)  # noqa: B023
            )
            # Kafka's brokers hear of changes from their controller, of tokens only once they have derived their keys.
            is_old = case.api_key == ApiKey.DESCRIBE_DELEGATION_TOKEN and any(one != answers[0] for one in answers)
            if not is_old or time.monotonic() > deadline:
                break
            time.sleep(POLL_INTERVAL_S)
        yield Asked(case.api_key, version, case.name, persona.name, answers)
        if case.api_key not in READ_ONLY and not all(map(_has_changed_nothing, answers)):
            bodies = []


def _set_up(world: World, scope: str, case: Case, version: int) -> Body | Any:
    """The request's body; None: it is not in this version; a mapping says why the state could not be made."""
    world.begin(scope)
    try:
        built = case.build(world, version)
    except NotInThisVersion:
        return None
    except (SetupFailed, LookupError, ValueError) as error:
        return {"outcome": NOT_SET_UP, "why": f"{type(error).__name__}: {error}"}
    if isinstance(built, Body):
        return built
    codec.check_names(case.api_key, built)
    return Body(codec.request_body(case.api_key, version, built))


def _answer(side: Side, body: Body | Any, case: Case, version: int, persona: Persona) -> Any:
    if not isinstance(body, Body):
        return body
    answer = _answer_in_time(side.guests.of(persona), case, body, version)
    if case.only:
        answer = only(answer, case.only, side.world.name(""))
    return without(normalized(answer, side.world.aliases), case.ignored)


def _answer_in_time(asker: Asker, case: Case, body: Body, version: int) -> Mapping[str, Any]:
    deadline = time.monotonic() + NOT_YET_MAX_S
    while True:
        answer = asker.send(case.api_key, version, body.data, is_answered=case.is_answered)
        if not NOT_YET.intersection(error_codes(answer)) or time.monotonic() > deadline:
            return answer
        time.sleep(POLL_INTERVAL_S)


def _has_changed_nothing(answer: Any) -> bool:
    codes = set(error_codes(answer))
    return answer == CLOSED or (bool(codes) and codes <= REFUSALS)
