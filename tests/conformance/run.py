"""Sends every case to both servers, at the same time, and compares what comes back."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from testing.processes import REPOSITORY
from testing.servers import BmqServer, KafkaServer, Server
from tests.conformance import codec
from tests.conformance.answers import normalized, only
from tests.conformance.case import Body, Case, NotInThisVersion
from tests.conformance.compare import Difference, differences
from tests.conformance.results import Outcome, Ranges
from tests.conformance.schemas import CLIENT_APIS, api_name, schema_versions
from tests.conformance.world import POLL_INTERVAL_S, SetupFailed, World

DATA: Final = REPOSITORY / ".cache" / "conformance"
# So few partitions: every first use of one costs Kafka a file and an election.
KAFKA_SETTINGS: Final = {"offsets.topic.num.partitions": "5", "transaction.state.log.num.partitions": "5"}
# Answers that say "later": COORDINATOR_LOAD_IN_PROGRESS, _NOT_AVAILABLE, NOT_COORDINATOR, CONCURRENT_TRANSACTIONS. Who
# says so longer than this means it.
NOT_YET: Final = frozenset({14, 15, 16, 51})
NOT_YET_MAX_S: Final = 10.0
NOT_SET_UP: Final = "cannot be set up"


@contextmanager
def both_servers(directory: Path = DATA) -> Iterator[tuple[World, World]]:
    """bmq's and Kafka's worlds, on new directories; both servers are gone afterwards."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    servers: list[Server] = [BmqServer(directory / "bmq"), KafkaServer(directory / "kafka", KAFKA_SETTINGS)]
    worlds: list[World] = []
    try:
        start_all(servers)
        worlds = [World(server.name, server.port) for server in servers]
        for world in worlds:
            world.start()
        yield worlds[0], worlds[1]
    finally:
        for world in worlds:
            world.close()
        for server in servers:
            server.close()


def start_all(servers: Sequence[Server]) -> None:
    """At the same time; returns once all of them serve."""
    with ThreadPoolExecutor(1) as starting:
        # Linux kills a child with the thread that started it (processes.dying_with_us): only waiting is done elsewhere.
        for server in servers:
            server.execute()
        for ready in [starting.submit(server.wait_until_ready) for server in servers]:
            ready.result()


def served_by(bmq: World, kafka: World) -> dict[int, Ranges]:
    """Of the client-facing APIs that one of them serves: versions that there are schemas for."""
    found = {}
    for api_key in CLIENT_APIS:
        try:
            lowest = schema_versions(api_key).start
        except KeyError:
            continue
        sides = [world.served.get(api_key) for world in (bmq, kafka)]
        if any(sides):
            found[api_key] = Ranges(*(side and range(max(side.start, lowest), side.stop) for side in sides))
    return found


def compare_all(
    bmq: World, kafka: World, cases: Sequence[Case], tell: Callable[[str], None] = lambda _: None
) -> list[Outcome]:
    """In the order of the cases; `tell` hears of each API."""
    outcomes = []
    served = served_by(bmq, kafka)
    with ThreadPoolExecutor(2) as pool:
        for case in cases:
            ranges = served.get(case.api_key)
            if ranges is None or ranges.bmq is None or ranges.kafka is None:
                continue
            began = time.monotonic()
            versions = [one for one in ranges.bmq if one in ranges.kafka and case.versions(one)]
            for version in versions:
                asked = [pool.submit(answer_of, world, case, version) for world in (bmq, kafka)]
                answers = [one.result() for one in asked]
                if None not in answers:
                    found = tuple(differences(*answers)) or _not_asked(answers)
                    outcomes.append(Outcome(case.api_key, version, case.name, found))
            seconds = time.monotonic() - began
            if versions:
                tell(f"{api_name(case.api_key)}: {case.name}: {len(versions)} versions, {seconds:.1f} s")
    return outcomes


def _not_asked(answers: Sequence[Any]) -> tuple[Difference, ...]:
    """What could be set up on neither side is no agreement."""
    if answers[0].get("outcome") == NOT_SET_UP:
        return (Difference("", *answers),)
    return ()


def answer_of(world: World, case: Case, version: int) -> Any:
    """Set up, ask, and what came back, normalized; None: there is no such case in this version."""
    world.begin(f"{api_name(case.api_key)} {case.name} v{version}")
    try:
        built = case.build(world, version)
        if not isinstance(built, Body):
            codec.check_names(case.api_key, built)
            built = Body(codec.request_body(case.api_key, version, built))
        answer = _answer_in_time(world, case, built, version if built.version is None else built.version)
        after = case.after(world, version, answer) if case.after else None
    except NotInThisVersion:
        return None
    except (SetupFailed, LookupError, ValueError) as error:
        return {"outcome": NOT_SET_UP, "why": f"{type(error).__name__}: {error}"}
    if case.only:
        answer = only(answer, case.only, world.name(""))
    answer = without(normalized(answer, world.aliases), case.ignored)
    return answer if after is None else {**answer, "after": normalized(after, world.aliases)}


def _answer_in_time(world: World, case: Case, body: Body, version: int) -> Mapping[str, Any]:
    deadline = time.monotonic() + NOT_YET_MAX_S
    while True:
        answer = world.send(case.api_key, version, body.data, is_answered=case.is_answered, client_id=body.client_id)
        if not NOT_YET.intersection(error_codes(answer)) or time.monotonic() > deadline:
            return answer
        time.sleep(POLL_INTERVAL_S)


def error_codes(value: Any, name: str = "") -> Iterator[int]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from error_codes(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from error_codes(one, name)
    elif name.endswith("error_code"):
        yield value


def without(value: Any, names: frozenset[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: without(one, names) for key, one in value.items() if key not in names}
    if isinstance(value, list):
        return [without(one, names) for one in value]
    return value
