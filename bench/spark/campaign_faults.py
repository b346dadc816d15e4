"""Kills a Spark job and servers with kill -9 while they work, from a seed, and restarts them.

Call everything here from the main thread: processes die with the thread that started them.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from random import Random
from typing import Any, Final, Protocol

from bench.findings import say
from testing.cluster import BmqCluster, ClusterNode
from testing.processes import ManagedProcess, ProcessFailed, eventually
from testing.servers import BmqServer

DELAY_S: Final = (0.0, 3.0)
"""Delay after progress was seen: the fault hits anywhere in the job's next work."""
BACK_S: Final = (0.0, 3.0)
"""Delay until a killed server is restarted."""
PROGRESS_WAIT_S: Final = 300.0
HEAL_WAIT_S: Final = 180.0
POLL_S: Final = 0.05


class CampaignStuck(Exception):
    """The campaign cannot continue, so it has no result."""


class Victim(StrEnum):
    JOB = "job"
    BROKER = "broker"
    TARGET = "target"
    """The server that a mirror writes to."""
    TARGET_AWAY = "target away"
    """The target is away for a minute, paused or killed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """`delay_s`: after the job made progress since its start and since the last fault. `back_s`: until the server is
    restarted. `number`: selects the partition whose owner is hit. `is_pause`: SIGSTOP instead of SIGKILL.
    """

    victim: Victim
    delay_s: float
    back_s: float
    number: int
    is_pause: bool = False


def plan_faults(seed: int, counts: Mapping[Victim, int], *, away_s: float = 0.0) -> tuple[Fault, ...]:
    """This many faults of each kind, in an order that the seed determines. Pure."""
    random = Random(seed)
    victims = [victim for victim, count in counts.items() for _ in range(count)]
    random.shuffle(victims)

    def fault(victim: Victim) -> Fault:
        delay_s, back_s = (round(random.uniform(*bounds), 2) for bounds in (DELAY_S, BACK_S))
        is_away = victim is Victim.TARGET_AWAY
        is_pause = is_away and random.random() < 0.5
        return Fault(victim, delay_s, away_s if is_away else back_s, random.randrange(1_000), is_pause)

    return tuple(map(fault, victims))


class Job:
    """A Spark job as a process group, including its JVM. `final_codes`: exit codes after which a restart is pointless.

    `progress` returns a number that grows with the work done, -1 if unknown; the job has progressed when it has grown
    by more than `step`. `ended`: why it ended by itself, each time.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log_file: Path,
        environment: Mapping[str, str],
        *,
        final_codes: frozenset[int] = frozenset(),
        progress: Callable[[Job], int],
        step: int = 0,
    ) -> None:
        self.process = ManagedProcess(name, command, log_file, environment)
        self.kills = 0
        self.ended: list[str] = []
        self._final_codes = final_codes
        self._progress = progress
        self._step = step
        self._seen = 0

    def start(self) -> None:
        self.process.start()
        self.mark()

    def kill(self) -> None:
        """kill -9 of the driver and its JVM; Python workers end with the JVM."""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.kill()
        self.kills += 1

    def close(self) -> None:
        if self.process.is_running:
            self.kill()

    def mark(self) -> None:
        """Measure progress from here."""
        self._seen = max(0, self._progress(self))

    def has_got_on(self) -> bool:
        return self._progress(self) > self._seen + self._step

    def supervise(self) -> None:
        """Restart the job if it ended by itself. Raises CampaignStuck when a restart is pointless."""
        if self.process.is_running:
            return
        code = self.process.exit_code
        sentence = (self.process.log_of_this_run().strip().splitlines() or [""])[-1][:300]
        self.ended.append(f"{code}: {sentence}")
        say(f"    {self.process.name} ended by itself with {code}: {sentence}")
        if code in self._final_codes:
            raise CampaignStuck(f"{self.process.name} ended with {code}{self.process}")
        self.start()


class Servers(Protocol):
    """The servers that faults hit besides the job."""

    def tick(self) -> None:
        """Restart servers that are due. Raises CampaignStuck."""

    def heal(self) -> None:
        """Return once all servers are back. Raises CampaignStuck."""

    def hurt(self, fault: Fault) -> str:
        """Kill a server and return which; `tick` brings it back."""


class Nodes:
    """The nodes of a cluster; at most one is away at a time."""

    def __init__(self, cluster: BmqCluster, topic: str, partitions: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._partitions = partitions
        self._away: ClusterNode | None = None
        self._due_s = 0.0

    def tick(self) -> None:
        if self._away is not None and time.monotonic() >= self._due_s:
            self._away.execute()
            self._away = None
        for node in self._cluster.nodes.values():
            if node is not self._away:
                try:
                    node.check_alive()
                except ProcessFailed as error:
                    raise CampaignStuck(f"{node} ended by itself: {error}") from error

    def heal(self) -> None:
        if self._away is not None:
            self._due_s = 0.0
            self.tick()
        try:
            self._cluster.wait_settled(HEAL_WAIT_S)
        except AssertionError as error:
            raise CampaignStuck(f"the cluster does not settle: {error}") from error

    def hurt(self, fault: Fault) -> str:
        partition = fault.number % self._partitions
        victim = self._cluster.owner_of(self._topic, partition)
        victim.kill()
        self._away, self._due_s = victim, time.monotonic() + fault.back_s
        return f"node {victim.node_id}, which owned {self._topic}-{partition}"


class NodesAndTarget:
    """The nodes of a source, and a target that is one server. `nodes` may be hit while the target is away."""

    def __init__(self, nodes: Nodes, target: BmqServer) -> None:
        self._nodes = nodes
        self._target = target
        self._is_away = False
        self._is_paused = False
        self._due_s = 0.0

    @property
    def is_target_away(self) -> bool:
        return self._is_away

    def tick(self) -> None:
        self._nodes.tick()
        if self._is_away and time.monotonic() >= self._due_s:
            if self._is_paused:
                self._target.process.resume()
            else:
                self._target.execute()
            self._is_away = False

    def heal(self) -> None:
        self._nodes.heal()
        eventually(self._is_back, HEAL_WAIT_S, "the target is back", interval_s=POLL_S)
        try:
            self._target.wait_until_ready()
        except ProcessFailed as error:
            raise CampaignStuck(f"the target does not come back: {error}") from error

    def _is_back(self) -> bool:
        self.tick()
        return not self._is_away

    def hurt(self, fault: Fault) -> str:
        if fault.victim is Victim.BROKER:
            return self._nodes.hurt(fault)
        if fault.is_pause:
            self._target.process.pause()
        else:
            self._target.kill()
        self._is_away, self._is_paused = True, fault.is_pause
        self._due_s = time.monotonic() + fault.back_s
        return "the target, stopped by SIGSTOP" if fault.is_pause else "the target"


def perform(faults: Sequence[Fault], job: Job, servers: Servers) -> list[dict[str, Any]]:
    """Perform each fault once the job progressed since the last one; returns what was done. Raises CampaignStuck."""
    began = time.monotonic()
    done: list[dict[str, Any]] = []
    for number, fault in enumerate(faults):
        if fault.victim is not Victim.JOB:
            servers.heal()
        waited_s = wait_for_progress(job, servers)
        pause(fault.delay_s, job, servers)
        job.mark()
        if fault.victim is Victim.JOB:
            job.kill()
            job.start()
            whom = "the job"
        else:
            whom = servers.hurt(fault)
        done.append(
            {
                "victim": fault.victim.value,
                "whom": whom,
                "at_s": round(time.monotonic() - began, 2),
                "progress_after_s": round(waited_s, 2),
                "delay_s": fault.delay_s,
                "back_s": 0.0 if fault.victim is Victim.JOB else fault.back_s,
            }
        )
        say(f"    {number + 1} of {len(faults)}: kill of {whom}; the job had got on after {waited_s:.1f} s")
        if fault.victim is Victim.TARGET_AWAY:
            pause(fault.back_s, job, servers)
    servers.heal()
    wait_for_progress(job, servers)
    return done


def wait_for_progress(job: Job, servers: Servers) -> float:
    """Wait until the job has progressed since its start and the last fault; the seconds. Raises CampaignStuck."""
    began = time.monotonic()
    while not job.has_got_on():
        servers.tick()
        job.supervise()
        if time.monotonic() - began > PROGRESS_WAIT_S:
            raise CampaignStuck(f"{job.process.name} has not got on for {PROGRESS_WAIT_S:g} s{job.process}")
        time.sleep(POLL_S)
    return time.monotonic() - began


def pause(seconds: float, job: Job, servers: Servers) -> None:
    """Wait, restarting what has to be restarted. Raises CampaignStuck."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        servers.tick()
        job.supervise()
        time.sleep(min(POLL_S, max(0.0, until - time.monotonic())))
