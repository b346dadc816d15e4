"""The machine that pods of a StatefulSet run on: binds each pod to itself, and starts and stops what the pod stands for.

Kubernetes is real, and this is in a kubelet's place.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from testing.kubernetes import Kubernetes

MACHINE: Final = "machine"
LOOK_S: Final = 0.2
END_S: Final = 60.0


class PodMachine:
    """`start` and `stop` get a pod's name and block. What they raise is in `failures`, and nothing further is started."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        namespace: str,
        start: Callable[[str], None],
        stop: Callable[[str], None],
    ) -> None:
        self.failures: list[BaseException] = []
        self._kubernetes, self._pods = kubernetes, f"/api/v1/namespaces/{namespace}/pods"
        self._start, self._stop = start, stop
        self._known: set[str] = set()
        self._is_ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pod-machine", daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._is_ending.set()
        self._thread.join(END_S)

    def _run(self) -> None:
        while not self._is_ending.wait(LOOK_S) and not self.failures:
            try:
                self._look()
            except httpx.HTTPError:
                continue  # the test has stopped the API server
            except BaseException as error:
                self.failures.append(error)

    def _look(self) -> None:
        status, answer = self._kubernetes.request("GET", self._pods)
        if status != 200:
            return
        for pod in answer["items"]:
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                self._gone(name)
            elif name not in self._known:
                self._bound(pod)
                self._known.add(name)
                self._start(name)

    def _bound(self, pod: Any) -> None:
        """From now on its deletion waits for this machine."""
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": MACHINE},
        }
        status, answer = self._kubernetes.request("POST", f"{self._pods}/{name}/binding", body)
        assert status == 201, answer

    def _gone(self, name: str) -> None:
        if name in self._known:
            self._stop(name)
            self._known.remove(name)
        status, answer = self._kubernetes.request("DELETE", f"{self._pods}/{name}", {"gracePeriodSeconds": 0})
        assert status in (200, 404), answer


@contextmanager
def pod_machine(
    kubernetes: Kubernetes, namespace: str, start: Callable[[str], None], stop: Callable[[str], None]
) -> Iterator[PodMachine]:
    machine = PodMachine(kubernetes, namespace, start, stop)
    machine.begin()
    try:
        yield machine
    finally:
        machine.end()
