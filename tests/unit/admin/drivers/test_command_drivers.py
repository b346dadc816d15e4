"""systemd and Kubernetes as their commands see them: what is asked, in which words, and what the answers come to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from bmq.admin.drivers.commands import CommandResult
from bmq.admin.drivers.driver import DriverFailed, DriverRefused, NodeHandle, NodeSpec
from bmq.admin.drivers.kubectl import Kubectl
from bmq.admin.drivers.kubernetes import FAILED_READS_MAX, StatefulSetPods
from bmq.admin.drivers.local import LocalProcesses
from bmq.admin.drivers.settings import NodeCommand, ScaleSettings, driver_of
from bmq.admin.drivers.systemd import SystemdUnits

pytestmark = pytest.mark.unit

UNITS = """\
bmq-node@100.service loaded active       running bmq node 100
bmq-node@101.service loaded failed       failed  bmq node 101
bmq-node@102.service loaded inactive     dead    bmq node 102
bmq-node@103.service loaded activating   auto-restart bmq node 103
bmq-node@7.service   loaded active       running bmq node 7
bmq-node@x.service   loaded active       running bmq node x
"""


class Systemctl:
    """Answers `list-units` with UNITS; everything else succeeds unless it is in `failing`."""

    def __init__(self) -> None:
        self.commands: list[str] = []
        self.failing: dict[str, CommandResult] = {}

    async def __call__(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        assert timeout_s > 0
        text = " ".join(command)
        self.commands.append(text)
        for part, result in self.failing.items():
            if part in text:
                return result
        return CommandResult(0, UNITS if "list-units" in command else "", "")


async def test_systemd_lists_its_instances() -> None:
    run = Systemctl()
    units = SystemdUnits(run, range(100, 110))
    assert await units.list_nodes() == [
        NodeHandle(100, True, "bmq-node@100.service is active (running)"),
        NodeHandle(101, False, "bmq-node@101.service is failed (failed)"),
        NodeHandle(103, True, "bmq-node@103.service is activating (auto-restart)"),
    ]
    assert run.commands == ["systemctl list-units --all --full --plain --no-legend --no-pager bmq-node@*.service"]
    assert await units.next_node_ids(3, {105}) == (101, 102, 104)
    assert not units.stops_in_order


async def test_systemd_starts_and_stops() -> None:
    run = Systemctl()
    units = SystemdUnits(run, range(100, 110), unit="bmq", host="admin@far")
    assert await units.start_node(NodeSpec(104, "broker")) == NodeHandle(104, True, "bmq@104.service")
    await units.stop_node(104)
    assert run.commands == [
        "systemctl --host admin@far start bmq@104.service",
        "systemctl --host admin@far stop bmq@104.service",
    ]
    run.failing["stop"] = CommandResult(5, "", "Hint: …\nFailed to stop bmq@104.service: Unit not loaded.\n")
    with pytest.raises(DriverFailed, match=r"ended with 5: Failed to stop bmq@104\.service: Unit not loaded\.$"):
        await units.stop_node(104)
    run.failing["start"] = CommandResult(1, "", "")
    with pytest.raises(DriverFailed, match="ended with 1: it did not say why"):
        await units.start_node(NodeSpec(104, "broker"))


class KubectlProgram:
    """A StatefulSet of `replicas` pods. A pod that is to go is there for `slow_reads` further looks."""

    def __init__(self, replicas: int, first_ordinal: int = 0) -> None:
        self.replicas = replicas
        self.existing = replicas
        self.first_ordinal = first_ordinal
        self.slow_reads = 0
        self.failing_reads = 0
        self.answer: str | None = None
        self.commands: list[str] = []

    async def __call__(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        assert timeout_s > 0
        self.commands.append(" ".join(command))
        assert command[:3] == ["kubectl", "--namespace", "mq"]
        match command[3:]:
            case ["get", "statefulset", "bmq", "-o", "json"]:
                return self._read()
            case ["scale", "statefulset/bmq", before, after]:
                if before != f"--current-replicas={self.replicas}":
                    return CommandResult(1, "", "error: Expected replicas to be 4, was 3\n")
                self.replicas = int(after.removeprefix("--replicas="))
                return CommandResult(0, "statefulset.apps/bmq scaled\n", "")
        raise AssertionError(command)

    def _read(self) -> CommandResult:
        is_first = not any(" scale " in command for command in self.commands)
        if not is_first and self.failing_reads > 0:
            self.failing_reads -= 1
            return CommandResult(1, "", "The connection to the server was refused\n")
        if self.slow_reads > 0:
            self.slow_reads -= not is_first
        else:
            self.existing = self.replicas
        spec: dict[str, Any] = {"replicas": self.replicas}
        if self.first_ordinal:
            spec["ordinals"] = {"start": self.first_ordinal}
        return CommandResult(0, self.answer or json.dumps({"spec": spec, "status": {"replicas": self.existing}}), "")


def pods_of(run: KubectlProgram) -> StatefulSetPods:
    return StatefulSetPods(Kubectl(run, namespace="mq"), range(100, 110), stateful_set="bmq", poll_interval_s=0)


async def test_kubernetes_scales_by_one_pod_and_from_the_end() -> None:
    run = KubectlProgram(3)
    pods = pods_of(run)
    assert pods.stops_in_order
    assert [node.detail for node in await pods.list_nodes()] == ["bmq-0", "bmq-1", "bmq-2"]
    assert await pods.next_node_ids(2, {1, 2}) == (103, 104)
    assert await pods.start_node(NodeSpec(103, "broker")) == NodeHandle(103, True, "bmq-3")
    assert run.replicas == 4
    await pods.start_node(NodeSpec(103, "broker"))
    assert run.replicas == 4, "it runs already"
    with pytest.raises(DriverFailed, match="the next pod of bmq is node 104, so node 106 cannot be started"):
        await pods.start_node(NodeSpec(106, "broker"))
    with pytest.raises(DriverFailed, match="node 103 has to stop before node 101"):
        await pods.stop_node(101)
    await pods.stop_node(103)
    assert run.replicas == 3
    await pods.stop_node(103)
    assert run.replicas == 3, "it is gone already"
    with pytest.raises(DriverFailed, match="the next pod of bmq would be node 104, which lives already"):
        await pods.next_node_ids(2, {104})
    with pytest.raises(DriverRefused, match=r"bmq may have 10 pods and 11 are needed; widen scale\.first_node_id"):
        await pods.next_node_ids(8, ())


async def test_a_pod_that_is_stopping_is_waited_for_and_listed() -> None:
    run = KubectlProgram(3)
    run.slow_reads = 5
    pods = pods_of(run)
    await pods.stop_node(102)
    assert (run.replicas, run.existing, run.slow_reads) == (2, 2, 0)
    run.slow_reads, run.existing = 1, 3
    assert [node.node_id for node in await pods.list_nodes()] == [100, 101, 102], "its node is registered still"
    await pods.stop_node(102)
    assert run.existing == 2


async def test_an_api_server_that_is_away_for_a_moment_fails_no_stop() -> None:
    run = KubectlProgram(3)
    run.failing_reads = FAILED_READS_MAX
    await pods_of(run).stop_node(102)
    run.failing_reads = FAILED_READS_MAX + 1
    with pytest.raises(DriverFailed, match=r"The connection to the server was refused$"):
        await pods_of(run).stop_node(101)


async def test_somebody_else_scales_while_a_pod_stops() -> None:
    run = KubectlProgram(3)
    run.slow_reads = 1
    asked = run.__call__

    async def scaled_back(command: Sequence[str], timeout_s: float) -> CommandResult:
        if run.slow_reads == 0:
            run.replicas = 7
        return await asked(command, timeout_s)

    pods = StatefulSetPods(Kubectl(scaled_back, namespace="mq"), range(100, 110), stateful_set="bmq", poll_interval_s=0)
    with pytest.raises(DriverFailed, match=r"^another client has scaled bmq to 7 pods meanwhile$"):
        await pods.stop_node(102)


async def test_kubernetes_pods_may_be_counted_from_another_number() -> None:
    run = KubectlProgram(2, first_ordinal=5)
    pods = pods_of(run)
    assert [(node.node_id, node.detail) for node in await pods.list_nodes()] == [(100, "bmq-5"), (101, "bmq-6")]
    await pods.stop_node(101)


@pytest.mark.parametrize(
    "answer",
    [
        "nonsense",
        "[]",
        "{}",
        '{"spec": {}}',
        '{"spec": {"replicas": "x"}}',
        '{"spec": 1}',
        '{"spec": {"replicas": 1, "template": 1}}',
        '{"spec": {"replicas": 1}, "status": [1]}',
        '{"spec": {"replicas": 1}, "metadata": {"generation": []}}',
        "[" * 100_000,
    ],
    ids=lambda answer: answer[:40],
)
async def test_an_answer_that_is_not_kubernetes(answer: str) -> None:
    run = KubectlProgram(2)
    run.answer = answer
    with pytest.raises(DriverFailed, match="Kubernetes' answer about StatefulSet bmq cannot be understood"):
        await pods_of(run).list_nodes()


async def test_a_number_of_pods_that_cannot_be() -> None:
    run = KubectlProgram(-1)
    with pytest.raises(DriverFailed, match="StatefulSet bmq says it has -1 replicas"):
        await pods_of(run).list_nodes()


def test_settings_choose_the_driver(tmp_path: Path) -> None:
    def command_of(spec: NodeSpec) -> Sequence[str]:
        return [str(spec.node_id)]

    assert driver_of(ScaleSettings(), command_of) is None
    assert isinstance(driver_of(ScaleSettings(driver="local", directory=tmp_path), command_of), LocalProcesses)
    systemd = ScaleSettings(driver="systemd", options={"unit": "mq", "host": "far"})
    assert isinstance(driver_of(systemd, command_of), SystemdUnits)
    kubernetes = ScaleSettings(driver="kubernetes", options={"stateful_set": "mq", "namespace": "n", "context": "c"})
    assert isinstance(driver_of(kubernetes, command_of, {}), StatefulSetPods)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"driver": "systemd", "options": {"units": "x"}},
            "the systemd driver has no option 'units'; it has: host, unit",
        ),
        ({"driver": "local", "options": {"unit": "x"}}, "the local driver has no option 'unit'; it has: none"),
        ({"first_node_id": 5, "last_node_id": 4}, "last_node_id is below first_node_id"),
        ({"driver": "magic"}, "Input should be 'none', 'local', 'systemd' or 'kubernetes'"),
        ({"unknown": 1}, "Extra inputs are not permitted"),
    ],
)
def test_settings_that_cannot_be_used(given: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        ScaleSettings(**given)


def test_the_command_line_of_a_node() -> None:
    command = NodeCommand(store="hdfs://a:1/b", zookeeper="z:2", rack="r", more=("--config", "f"), program=("bmq",))
    assert " ".join(command.of(NodeSpec(100, "proxy,broker"))) == (
        "bmq node --node-id 100 --roles proxy,broker --store hdfs://a:1/b --zookeeper z:2 --listen 127.0.0.1:0 "
        "--internal 127.0.0.1:0 --rest 127.0.0.1:0 --workers 0 --rack r --config f"
    )
    assert "[::1]:0" in NodeCommand(store="s", zookeeper="z", host="::1").of(NodeSpec(1, "broker"))
