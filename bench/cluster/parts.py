"""The parts of the benchmark: the clusters each needs, whom it hurts, and how bmq and Apache Kafka take turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import psutil

from bench.cluster import drain, faults, many, moves, restarts, scaling
from bench.cluster.criteria import COMBINED_SUFFIX, DEFAULT_SESSION, PAIRS, SEPARATE, VARIANTS
from bench.cluster.filling import fill
from bench.cluster.loads import run_loads
from bench.cluster.plan import MANY_PARTITIONS, Plan, blocks
from bench.cluster.sides import ALONE, COMBINED, PROXIES_AND_BROKERS, SEPARATE_ROLES, Node, Side
from bench.cluster.stage import Stage
from bench.criteria import BMQ, KAFKA
from bench.findings import Findings, say

Part = Callable[[Stage, Plan, Findings], None]

DISK_FOR_THREE_REPLICAS_BYTES: Final = 45 * 1024**3
# What bmq and Kafka are under test with, or not: see bench/cluster/tuning.py.
NORMAL_SCHEDULING: Final = {"BMQ_SCHEDULING": "normal"}
BATCH_SCHEDULING: Final = ("chrt", "--batch", "0")
DEFAULT_SESSION_MS: Final = {"BMQ_CLUSTER__ZOOKEEPER_SESSION_MS": "6000"}


# -- Faults, in one layout or the other ------------------------------------------------------------------------------------


def _is_combined(part: str) -> bool:
    return part.endswith(COMBINED_SUFFIX)


def _bmq(stage: Stage, stack: ExitStack, part: str) -> Side:
    return stack.enter_context(stage.bmq(COMBINED if _is_combined(part) else SEPARATE_ROLES))


def _kafka(stage: Stage, stack: ExitStack, part: str) -> Side:
    return stack.enter_context(stage.kafka(is_combined=_is_combined(part)))


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
    wanted = dict(zip((BMQ, KAFKA), counts, strict=True))
    done = {name: findings.rounds(part, name, wanted[name]) for name in plan.sides}
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name in plan.sides:
            if wanted[name]:
                with findings.attempt([part], name):
                    sides[name] = (_bmq if name == BMQ else _kafka)(stage, stack, part)
                    faults.make_topic(sides[name])
        for block in blocks(wanted[BMQ] if BMQ in sides else 0, wanted[KAFKA] if KAFKA in sides else 0):
            for name, count in zip((BMQ, KAFKA), block, strict=True):
                if name not in sides or not count:
                    continue
                with findings.attempt([part], name):
                    faults.rounds(sides[name], count, faults.busiest_broker, hurt, heal, done[name])


def kill9_broker(part: str, stage: Stage, plan: Plan, findings: Findings) -> None:
    counts = (plan.broker_kills, plan.kafka_broker_kills)
    _alternating_faults(part, stage, plan, findings, counts, lambda node: node.kill(), lambda node: node.start())


def hung_broker(part: str, stage: Stage, plan: Plan, findings: Findings) -> None:
    counts = (plan.broker_hangs, plan.kafka_broker_hangs)
    _alternating_faults(part, stage, plan, findings, counts, lambda node: node.pause(), lambda node: node.resume())


def hung_worker(stage: Stage, plan: Plan, findings: Findings) -> None:
    """Every node a proxy, and a process under a supervisor: what stands still is ended and started again."""
    done = findings.rounds("hung_worker", BMQ, plan.worker_hangs)
    with findings.attempt(["hung_worker"], BMQ), stage.bmq(COMBINED, arguments=("--workers", "1")) as side:
        faults.make_topic(side)
        faults.rounds(
            side,
            plan.worker_hangs,
            faults.busiest_broker,
            _suspend_worker,
            lambda node: side.nodes[node.node_id].wait_until_ready(),
            done,
        )


def _suspend_worker(node: Node) -> None:
    (worker,) = psutil.Process(node.process.pid).children()
    worker.suspend()


def kill9_default_session(stage: Stage, plan: Plan, findings: Findings) -> None:
    """The default in the place of what this benchmark sets."""
    done = findings.rounds(DEFAULT_SESSION, BMQ, plan.default_session_kills)
    with findings.attempt([DEFAULT_SESSION], BMQ), stage.bmq(COMBINED, environment=DEFAULT_SESSION_MS) as side:
        faults.make_topic(side)
        faults.rounds(
            side,
            plan.default_session_kills,
            faults.busiest_broker,
            lambda node: node.kill(),
            lambda node: node.start(),
            done,
        )


def kill9_proxy(stage: Stage, plan: Plan, findings: Findings) -> None:
    """In the combined layout a proxy dies with its broker: see kill9_broker."""
    done = findings.rounds("kill9_proxy", BMQ, plan.proxy_kills)
    with findings.attempt(["kill9_proxy"], BMQ), stage.bmq(SEPARATE_ROLES) as side:
        faults.make_topic(side)
        faults.rounds(
            side,
            plan.proxy_kills,
            lambda _, __: faults.busiest_proxy(side),
            lambda node: node.kill(),
            lambda node: node.start(),
            done,
        )


def controller_kill(part: str, stage: Stage, plan: Plan, findings: Findings) -> None:
    """In the separate layout Kafka's only controller is killed as its brokers go on; bmq has a second one."""
    window_s = plan.controller_kills * plan.controller_kills_apart_s
    for name in plan.sides:
        with findings.attempt([part], name), ExitStack() as stack:
            side = (_bmq if name == BMQ else _kafka)(stage, stack, part)
            faults.make_topic(side)
            disturb = faults.kill_controllers(side, plan.controller_kills, plan.controller_kills_apart_s)
            findings.samples(part, name).update(faults.windows(side, window_s, disturb))


def zookeeper_away(part: str, stage: Stage, plan: Plan, findings: Findings) -> None:
    away_s = plan.zookeeper_away_s
    with findings.attempt([part], BMQ), ExitStack() as stack:
        side = _bmq(stage, stack, part)
        faults.make_topic(side)
        disturb = faults.without(stage.stop_zookeeper, stage.start_zookeeper, away_s)
        found = faults.windows(side, away_s + faults.AFTERMATH_S, disturb)
        findings.samples(part, BMQ).update(found)


# -- Moves and restarts --------------------------------------------------------------------------------------------------


def move(stage: Stage, plan: Plan, findings: Findings) -> None:
    """One partition grows from size to size and is moved at each."""
    for name in plan.sides:
        stage.down()  # what earlier parts left would be in the way of 5 GiB three times
        with findings.attempt(["move"], name):
            (_move_of_bmq if name == BMQ else _move_of_kafka)(stage, plan, findings.samples("move", name))
    stage.down()


def _move_of_bmq(stage: Stage, plan: Plan, samples: dict[str, Any]) -> None:
    replicas = 3 if stage.free_bytes() > DISK_FOR_THREE_REPLICAS_BYTES else 1
    with stage.bmq(SEPARATE_ROLES, environment={"BMQ_HDFS__REPLICATION": str(replicas)}) as side:
        samples.update(hdfs_replicas=replicas, under_load={})
        _move(side, plan, samples, stage.blocks)
        samples["in_peace"] = moves.move_in_peace(side, plan.moves, stage.blocks, replicas)
        say(f"  bmq: in peace {samples['in_peace']}")


def _move_of_kafka(stage: Stage, plan: Plan, samples: dict[str, Any]) -> None:
    with stage.kafka(is_combined=False) as kafka:
        samples["under_load"] = {}
        _move(kafka, plan, samples, kafka.log_files)


def _move(side: Side, plan: Plan, samples: dict[str, Any], stored: moves.Stored) -> None:
    moves.prepare(side)
    there = 0
    for size in plan.move_sizes:
        filled_s = fill(side.bootstrap, moves.TOPIC, 1, moves.SIZES[size] - there, moves.FILL_RECORD_BYTES)
        there = moves.SIZES[size]
        found = moves.move_under_load(side, plan.moves, stored)
        samples["under_load"][size] = found
        say(f"  {side.name} {size} (filled in {filled_s:.1f} s): {found}")


def restart(stage: Stage, plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        done = findings.rounds("restart", name, plan.restarts)
        with findings.attempt(["restart"], name), ExitStack() as stack:
            side: Side
            if name == BMQ:
                side = stack.enter_context(stage.bmq(SEPARATE_ROLES, environment=restarts.ENVIRONMENT))
            else:
                side = stack.enter_context(stage.kafka(is_combined=False))
            found = restarts.measure(side, plan.restarts, plan.partitions_in_use, plan.partitions_idle, done)
            findings.samples("restart", name).update(found)
        stage.down()  # its blocks are still being written to, as far as HDFS knows: there is no room beside them


def scale(stage: Stage, plan: Plan, findings: Findings) -> None:
    environment = scaling.environment(str(stage.directory / "scaled"))
    with findings.attempt(["scale"], BMQ), stage.bmq(ALONE, environment=environment) as side:
        findings.samples("scale", BMQ).update(scaling.measure(side))


# -- Loads ---------------------------------------------------------------------------------------------------------------


def drain_backlog(stage: Stage, plan: Plan, findings: Findings) -> None:
    for name in plan.sides:
        with findings.attempt(["drain"], name), stage.combined(name) as side:
            filled_s = drain.prepare(side, plan.backlog_bytes)
            found = drain.measure(side, plan.drains, plan.drain_window_s)
            say(f"  {name}: {found['drained_mb_per_s']} MB/s, {found['rounds']}")
            apart = drain.measure(side, plan.drains, plan.drain_window_s, is_apart=True)
            say(f"  {name}, consumers apart: {apart['drained_mb_per_s']} MB/s, {apart['rounds']}")
            findings.samples("drain", name).update(
                found,
                wanted=plan.drains,
                backlog_bytes=plan.backlog_bytes,
                filled_s=round(filled_s, 2),
                apart=apart,
            )
    stage.down()


def pair_order(plan: Plan, number: int) -> list[str]:
    """Who is measured in a pair: both sides, both layouts, and one variant beside the side it is of.

    Who comes first changes: nobody profits from a machine that slows down or speeds up.
    """
    names: list[str] = []
    for side in plan.sides:
        names.append(side)
        if plan.are_all_layouts_paired:
            names += [variant.name for variant in VARIANTS[number : number + 1] if variant.side == side]
            names += [SEPARATE] if side == BMQ else []
    return names if number % 2 == 0 else names[::-1]


def pairs(stage: Stage, plan: Plan, findings: Findings) -> None:
    found = findings.pairs(PAIRS, plan.pairs)
    variants = {variant.name for variant in VARIANTS}
    for number in range(plan.pairs):
        pair: dict[str, Any] = {"order": pair_order(plan, number)}
        found.append(pair)
        for name in pair["order"]:
            say(f"  pair {number + 1} of {plan.pairs}: {name}")
            # A variant that fails takes nothing from the pair it stands in.
            part = f"{PAIRS}/{name}" if name in variants else PAIRS
            with findings.attempt([part], f"pair {number + 1}: {name}"), ExitStack() as stack:
                stage.down()
                run_loads(_paired(stage, stack, name), plan.sizes, pair.setdefault(name, {}))
    stage.down()


def _paired(stage: Stage, stack: ExitStack, name: str) -> Side:
    if name in (KAFKA, "kafka_batch_scheduling"):
        wrapper = () if name == KAFKA else BATCH_SCHEDULING
        return stack.enter_context(stage.kafka(is_combined=True, is_alone=True, wrapper=wrapper))
    stage.up(is_jvm_default=name == "bmq_jvm_defaults")
    environment = NORMAL_SCHEDULING if name == "bmq_normal_scheduling" else {}
    return stack.enter_context(
        stage.bmq(PROXIES_AND_BROKERS if name == SEPARATE else COMBINED, environment=environment)
    )


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


def _of_bmq_alone(work: Part) -> Part:
    """Nothing, when Kafka alone is asked for."""

    def run(stage: Stage, plan: Plan, findings: Findings) -> None:
        if BMQ in plan.sides:
            work(stage, plan, findings)

    return run


def _in_both_layouts(name: str, work: Callable[[str, Stage, Plan, Findings], None]) -> dict[str, Part]:
    return {part: partial(work, part) for part in (name, f"{name}{COMBINED_SUFFIX}")}


RUNS: Final[Mapping[str, Part]] = {
    **_in_both_layouts("kill9_broker", kill9_broker),
    DEFAULT_SESSION: _of_bmq_alone(kill9_default_session),
    **_in_both_layouts("hung_broker", hung_broker),
    "hung_worker": _of_bmq_alone(hung_worker),
    "kill9_proxy": _of_bmq_alone(kill9_proxy),
    **_in_both_layouts("controller_kill", controller_kill),
    **{part: _of_bmq_alone(work) for part, work in _in_both_layouts("zookeeper_away", zookeeper_away).items()},
    "move": move,
    "restart": restart,
    "scale": _of_bmq_alone(scale),
    "drain": drain_backlog,
    PAIRS: pairs,
    **dict.fromkeys(MANY_PARTITIONS, many_partitions),
}
"""What to call for a part; parts with the same run are done together."""
