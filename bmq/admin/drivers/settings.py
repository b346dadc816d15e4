"""Settings of scaling, and the driver they select."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bmq.admin.drivers.api_server import SERVICE_ACCOUNT, ApiServer, pod_access
from bmq.admin.drivers.commands import run_command
from bmq.admin.drivers.driver import Driver, NodeSpec
from bmq.admin.drivers.kubectl import Kubectl
from bmq.admin.drivers.kubernetes import STATEFUL_SET, StatefulSetPods
from bmq.admin.drivers.local import LocalProcesses
from bmq.admin.drivers.stateful_set import StatefulSets
from bmq.admin.drivers.systemd import SystemdUnits
from bmq.dataclass import dataclass

_OPTIONS: Final = {
    "none": frozenset[str](),
    "local": frozenset[str](),
    "systemd": frozenset({"unit", "host"}),
    "kubernetes": frozenset({"stateful_set", "namespace", "context", "service_account"}),
}


class ScaleSettings(BaseModel):
    """The table `[scale]`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    driver: Literal["none", "local", "systemd", "kubernetes"] = "none"
    """Starts and stops nodes when the cluster is scaled: `none`, `local`, `systemd`, `kubernetes`."""
    directory: Path = Path("data/nodes")
    """`local`: pid files and logs of the started nodes."""
    first_node_id: int = Field(default=100, ge=0, le=2**31 - 1)
    """Lowest id of a node the driver starts."""
    last_node_id: int = Field(default=199, ge=0, le=2**31 - 1)
    """Highest one."""
    roles: str = "proxy,broker,coordinator"
    """`local`: roles of a node the driver starts."""
    register_wait_ms: int = Field(default=60_000, ge=1_000, le=3_600_000)
    """How long a node that was started may take to register. After it, the node is stopped."""
    options: dict[str, str] = Field(default_factory=dict)
    """`systemd`: `unit`, `host`; `kubernetes`: `stateful_set`, `namespace`, `context`, `service_account`."""

    @model_validator(mode="after")
    def _is_usable(self) -> Self:
        if self.last_node_id < self.first_node_id:
            raise ValueError("last_node_id is below first_node_id")
        unknown = sorted(set(self.options) - _OPTIONS[self.driver])
        if unknown:
            known = ", ".join(sorted(_OPTIONS[self.driver])) or "none"
            raise ValueError(f"the {self.driver} driver has no option {unknown[0]!r}; it has: {known}")
        return self

    @property
    def node_ids(self) -> range:
        return range(self.first_node_id, self.last_node_id + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCommand:
    """The command line that starts another node like this one on this machine. The new node reads all other settings.

    `host`: the address it listens on and is reached at. `more`: further arguments, as `--config FILE`.
    """

    store: str
    zookeeper: str
    host: str = "127.0.0.1"
    rack: str | None = None
    more: Sequence[str] = ()
    program: Sequence[str] = field(default_factory=lambda: (sys.executable, "-P", "-m", "bmq.cli.main"))

    def of(self, spec: NodeSpec) -> Sequence[str]:
        address = f"[{self.host}]:0" if ":" in self.host else f"{self.host}:0"
        return [
            *self.program,
            "node",
            *("--node-id", str(spec.node_id)),
            *("--roles", spec.roles),
            *("--store", self.store),
            *("--zookeeper", self.zookeeper),
            *("--listen", address),
            *("--internal", address),
            *("--rest", address),
            *("--workers", "0"),
            *(("--rack", self.rack) if self.rack else ()),
            *self.more,
        ]


def driver_of(
    settings: ScaleSettings,
    command_of: Callable[[NodeSpec], Sequence[str]],
    environment: Mapping[str, str] = os.environ,
) -> Driver | None:
    """None when no driver is set: then scaling is impossible. `command_of`: NodeCommand(...).of."""
    match settings.driver:
        case "none":
            return None
        case "local":
            return LocalProcesses(settings.directory, settings.node_ids, command_of)
        case "systemd":
            return SystemdUnits(run_command, settings.node_ids, **settings.options)
        case "kubernetes":
            return _stateful_set_pods(settings, environment)


def _stateful_set_pods(settings: ScaleSettings, environment: Mapping[str, str]) -> StatefulSetPods:
    """In a pod with a service account's token by the API server itself; elsewhere, or where a context is named, by kubectl."""
    given = settings.options
    namespace, context = given.get("namespace", ""), given.get("context", "")
    access = None if context else pod_access(environment, Path(given.get("service_account", SERVICE_ACCOUNT)))
    sets: StatefulSets
    if access is None:
        sets = Kubectl(run_command, namespace=namespace, context=context)
    else:
        sets = ApiServer(access, namespace=namespace)
    return StatefulSetPods(sets, settings.node_ids, stateful_set=given.get("stateful_set", STATEFUL_SET))
