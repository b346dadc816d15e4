"""Orders a number of brokers by REST, and follows the task to its end."""

from __future__ import annotations

from typing import Any, Final

from testing.cluster import ClusterNode
from testing.patience import Patience

SCALE_WAIT_S: Final = 150.0
REST_WAIT_S: Final = 60.0


def scale(node: ClusterNode, brokers: int) -> dict[str, Any]:
    """The task, which has ended without an error. Raises AssertionError."""
    task = ended(node, ordered(node, brokers))
    assert task["error"] is None, task
    return task


def ordered(node: ClusterNode, brokers: int) -> dict[str, Any]:
    """The task as it begins."""
    status, task = node.call("POST", "/v1/scale", {"brokers": brokers}, timeout_s=REST_WAIT_S)
    assert status == 202, task
    found: dict[str, Any] = task
    return found


def ended(node: ClusterNode, task: dict[str, Any]) -> dict[str, Any]:
    """The task as it ends."""
    patience = Patience(SCALE_WAIT_S)
    while task["state"] == "running":
        assert not patience.is_over(), f"not within {SCALE_WAIT_S} s: {task}"
        path = f"/v1/tasks/{task['id']}/events?after={task['version']}&wait_ms=2000"
        status, task = node.call("GET", path, timeout_s=REST_WAIT_S)
        assert status == 200, task
    return task
