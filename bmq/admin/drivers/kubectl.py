"""StatefulSets through `kubectl`, which has the address of the API server and a login of its own."""

from __future__ import annotations

from typing import Final

from bmq.admin.drivers.commands import CommandRunner, output_of
from bmq.admin.drivers.stateful_set import StatefulSet, read_stateful_set

READ_WAIT_S: Final = 10.0
ORDER_WAIT_S: Final = 30.0


class Kubectl:
    """Implements StatefulSets. `context`: one of the kubeconfig; empty: the current one."""

    def __init__(self, run: CommandRunner, *, namespace: str = "", context: str = "") -> None:
        self._run = run
        self._kubectl = [
            "kubectl",
            *(["--context", context] if context else []),
            *(["--namespace", namespace] if namespace else []),
        ]

    async def read(self, name: str) -> StatefulSet:
        text = await output_of(self._run, [*self._kubectl, "get", "statefulset", name, "-o", "json"], READ_WAIT_S)
        return read_stateful_set(name, text)

    async def scale(self, name: str, before: StatefulSet, replicas: int) -> None:
        order = ["scale", f"statefulset/{name}", f"--current-replicas={before.replicas}", f"--replicas={replicas}"]
        await output_of(self._run, [*self._kubectl, *order], ORDER_WAIT_S)
