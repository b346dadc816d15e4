"""The parts of the benchmark: the clusters each needs, whom it hurts, and how bmq and Apache Kafka take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

from bench.cluster import drain, faults, many, moves, restarts, scaling, throughput
from bench.cluster.criteria import BMQ, KAFKA, PAIRS, SEPARATE
from bench.cluster.filling import fill
from bench.cluster.findings import Findings, say
from bench.cluster.plan import MANY_PARTITIONS, Plan, blocks
from bench.cluster.sides import ALONE, COMBINED, PROXIES_AND_BROKERS, SEPARATE_ROLES, Node, Side
from bench.cluster.stage import Stage

Part = Callable[[Stage, Plan, Findings], None]

DISK_FOR_THREE_REPLICAS_BYTES: Final = 45 * 1024**3


# -- Faults ------------------------------------------------------------------------------------------------------------


def _alternating_faults(
    part: str,
    stage: Stage,
    plan: Plan,
    findings: Findings,
    counts: tuple[int, int],
    hurt: Callable[[Node], None],
    heal: Callable[[Node], None],
) -> None:
    """Rounds of bmq and of Kafka in turn, the busiest broker each time; both clusters are there all the time."""
    ours, theirs = (count if name in plan.sides else 0 for name, count in zip((BMQ, KAFKA), counts, strict=True))
    done = {
        BMQ: findings.rounds(part, BMQ, ours),
        KAFKA: findings.rounds(part, KAFKA, theirs),
    }
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        if ours:
            with findings.attempt([part], BMQ):
                sides[BMQ] = stack.enter_context(stage.bmq(SEPARATE_ROLES))
                faults.make_topic(sides[BMQ])
        if theirs:
            with findings.attempt([part], KAFKA):
                sides[KAFKA] = stack.enter_context(stage.kafka(is_combined=False))
                faults.make_topic(sides[KAFKA])
        for block in blocks(ours, theirs):
            for name, count in zip((BMQ, KAFKA), block, strict=True):
                if name not in sides or not count:
                    continue
                side = sides[name]
                with findings.attempt([part], name):
                    faults.rounds(side, count, faults.busiest_broker, hurt, heal, done[name])


def kill9_broker(stage: Stage, plan: Plan, findings: Findings) -> None:
    counts = (plan.broker_kills, plan.kafka_broker_kills)
    _alternating_faults(
        "kill9_broker", stage, plan, findings, counts, lambda node: node.kill(), lambda node: node.start()
    )


def hung_broker(stage: Stage, plan: Plan, findings: Findings) -> None:
    counts = (plan.broker_hangs, plan.kafka_broker_hangs)
    _alternating_faults(
        "hung_broker", stage, plan, findings, counts, lambda node: node.pause(), lambda node: node.resume()
    )


def kill9_proxy(stage: Stage, plan: Plan, findings: Findings) -> None:
    done = findings.rounds("kill9_proxy", BMQ, plan.proxy_kills)
    with findings.attempt(["kill9_proxy"], BMQ), stage.bmq(SEPARATE_ROLES) as side:
        faults.make_topic(side)
        for _ in range(plan.proxy_kills):
            # A load of its own each time: one that lived through the last round would go on without the proxy that is back.
            faults.rounds(
                side,
                1,
                lambda *_: faults.busiest_proxy(side),
                lambda node: node.kill(),
                lambda node: node.start(),
                done,
            )


def controller_kill(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Kafka's only controller is killed as its brokers go on; bmq has a second one."""
    window_s = plan.controller_kills * plan.controller_kills_apart_s
    for name in plan.sides:
        with findings.attempt(["controller_kill"], name), ExitStack() as stack:
            side: Side
            if name == BMQ:
                side = stack.enter_context(stage.bmq(SEPARATE_ROLES))
            else:
                side = stack.enter_context(stage.kafka(is_combined=False))
            faults.make_topic(side)
            disturb = faults.kill_controllers(side, plan.controller_kills, plan.controller_kills_apart_s)
            findings.samples("controller_kill", name).update(faults.windows(side, window_s, disturb))


def zookeeper_away(stage: Stage, plan: Plan, findings: Findings) -> None:
    away_s = plan.zookeeper_away_s
    with findings.attempt(["zookeeper_away"], BMQ), stage.bmq(SEPARATE_ROLES) as side:
        faults.make_topic(side)
        disturb = faults.without(stage.stop_zookeeper, stage.start_zookeeper, away_s)
        found = faults.windows(side, away_s + faults.AFTERMATH_S, disturb)
        findings.samples("zookeeper_away", BMQ).update(found)


# -- Moves and restarts --------------------------------------------------------------------------------------------------


def move(stage: Stage, plan: Plan, findings: Findings) -> None:
    """One partition grows from size to size and is moved at each. Kafka copies it, so its largest size is left out."""
    for name in plan.sides:
        stage.down()  # what earlier parts left would be in the way of 5 GiB three times
        with findings.attempt(["move"], name):
            (_move_of_bmq if name == BMQ else _move_of_kafka)(stage, plan, findings.samples("move", name))
    stage.down()


def _move_of_bmq(stage: Stage, plan: Plan, samples: dict[str, Any]) -> None:
    replicas = 3 if stage.free_bytes() > DISK_FOR_THREE_REPLICAS_BYTES else 1
    with stage.bmq(SEPARATE_ROLES, environment={"BMQ_HDFS__REPLICATION": str(replicas)}) as side:
        samples.update(hdfs_replicas=replicas, under_load={})
        _move(side, plan.moves, plan.move_sizes, samples, stage.blocks)
        samples["in_peace"] = moves.move_in_peace(side, plan.moves, stage.blocks, replicas)
        say(f"  bmq: in peace {samples['in_peace']}")


def _move_of_kafka(stage: Stage, plan: Plan, samples: dict[str, Any]) -> None:
    with stage.kafka(is_combined=False) as kafka:
        samples["under_load"] = {}
        if left_out := [size for size in plan.move_sizes if size not in plan.kafka_move_sizes]:
            samples["left_out"] = (
                f"{', '.join(left_out)}: Kafka copies all of it, which says nothing new and takes long"
            )
        _move(kafka, plan.moves, plan.kafka_move_sizes, samples, kafka.log_files)


def _move(side: Side, count: int, sizes: tuple[str, ...], samples: dict[str, Any], stored: moves.Stored) -> None:
    moves.prepare(side)
    there = 0
    for size in sizes:
        filled_s = fill(side.bootstrap, moves.TOPIC, 1, moves.SIZES[size] - there, moves.FILL_RECORD_BYTES)
        there = moves.SIZES[size]
        found = moves.move_under_load(side, count, stored)
        samples["under_load"][size] = found
        say(f"  {side.name} {size} (filled in {filled_s:.1f} s): {found}")


def restart(stage: Stage, plan: Plan, findings: Findings) -> None:
    for name, count in ((BMQ, plan.restarts), (KAFKA, plan.kafka_restarts)):
        if not count or name not in plan.sides:
            continue
        done = findings.rounds("restart", name, count)
        with findings.attempt(["restart"], name), ExitStack() as stack:
            side: Side
            if name == BMQ:
                side = stack.enter_context(stage.bmq(SEPARATE_ROLES, environment=restarts.ENVIRONMENT))
            else:
                side = stack.enter_context(stage.kafka(is_combined=False))
            findings.samples("restart", name).update(restarts.measure(side, count, plan.partitions_per_broker, done))
        stage.down()  # its blocks are still being written to, as far as HDFS knows: there is no room beside them


def scale(stage: Stage, plan: Plan, findings: Findings) -> None:
    environment = scaling.environment(str(stage.directory / "scaled"))
    with findings.attempt(["scale"], BMQ), stage.bmq(ALONE, environment=environment) as side:
        findings.samples("scale", BMQ).update(scaling.measure(side))


# -- Loads ---------------------------------------------------------------------------------------------------------------


def drain_backlog(stage: Stage, plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        with findings.attempt(["drain"], name), ExitStack() as stack:
            side: Side
            if name == BMQ:
                side = stack.enter_context(stage.bmq(COMBINED))
            else:
                side = stack.enter_context(stage.kafka(is_combined=True, is_alone=True))
            found = drain.measure(side, plan.backlog_bytes, plan.drains, plan.drain_window_s)
            findings.samples("drain", name).update(found, wanted=plan.drains)
            say(f"  {name}: {found['drained_mb_per_s']} MB/s, {found['rounds']}")
    stage.down()


def pairs(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Who comes first changes: nobody profits from a machine that slows down or speeds up."""
    names = [name for side in plan.sides for name in ((BMQ, SEPARATE) if side == BMQ else (KAFKA,))]
    for number in range(plan.pairs):
        pair: dict[str, Any] = {"order": names if number % 2 == 0 else names[::-1]}
        findings.pairs.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            with findings.attempt([PAIRS], name), ExitStack() as stack:
                stage.down()
                side: Side
                if name == KAFKA:
                    side = stack.enter_context(stage.kafka(is_combined=True, is_alone=True))
                else:
                    side = stack.enter_context(stage.bmq(COMBINED if name == BMQ else PROXIES_AND_BROKERS))
                pair[name] = throughput.run_all(side, plan.sizes)
    stage.down()


# -- Many partitions -----------------------------------------------------------------------------------------------------


def many_partitions(stage: Stage, plan: Plan, findings: Findings) -> None:
    """One cluster of each for the parts that need so many; what was not asked for is left out."""
    parts = [part for part in MANY_PARTITIONS if part in plan.parts]
    if BMQ in plan.sides:
        with findings.attempt(parts, BMQ), stage.bmq(SEPARATE_ROLES) as side:
            _on_many(side, plan.partitions, parts, plan, findings)
    if KAFKA in plan.sides:
        # A broker of Kafka with thousands of partitions takes minutes to come back: its shard stands in a smaller cluster.
        for partitions, some in (
            (plan.partitions, [part for part in parts if part != "shard_replay"]),
            (plan.kafka_shard_partitions, [part for part in parts if part == "shard_replay"]),
        ):
            if some:
                with findings.attempt(some, KAFKA), stage.kafka(is_combined=True, is_alone=True) as kafka:
                    _on_many(kafka, partitions, some, plan, findings)
    stage.down()


def _on_many(side: Side, partitions: int, parts: Sequence[str], plan: Plan, findings: Findings) -> None:
    created = many.create(side, partitions)
    say(f"  {side.name}: {created}")
    for part in parts:
        samples = findings.samples(part, side.name)
        samples["created"] = created
        with findings.attempt([part], side.name):
            if part == "metadata":
                samples.update(many.metadata(side, plan.metadata_requests))
            elif part == "controller_failover":
                count = plan.controller_failovers if side.name == BMQ else plan.kafka_controller_failovers
                done = findings.rounds(part, side.name, count)
                many.controller_failovers(side, count, done, is_last_started=side.name == BMQ)
            else:
                samples.update(many.shard_failover(side, partitions, plan.offsets))
                say(f"  {side.name}: {samples}")


RUNS: Final[Mapping[str, Part]] = {
    "kill9_broker": kill9_broker,
    "hung_broker": hung_broker,
    "kill9_proxy": kill9_proxy,
    "controller_kill": controller_kill,
    "zookeeper_away": zookeeper_away,
    "move": move,
    "restart": restart,
    "scale": scale,
    "drain": drain_backlog,
    PAIRS: pairs,
    **dict.fromkeys(MANY_PARTITIONS, many_partitions),
}
"""What to call for a part; parts with the same run are done together."""
