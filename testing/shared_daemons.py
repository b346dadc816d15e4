"""One HDFS and one ZooKeeper for all tests of a run, whichever process they run in.

`python -m testing.shared_daemons DIRECTORY` starts them, writes DIRECTORY/daemons.json, prints READY, and ends them when
its standard input is closed. A run names that file in VARIABLE; without it each pytest process starts daemons of its own.
The daemons are nobody's to hurt, and nobody's root is another's: `fresh_root`, `fresh_chroot`.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.dev.hdfs import HdfsCluster
from bmq.dev.zookeeper import ZooKeeperPlan, ZooKeeperServer
from testing.free_ports import started_on_free_ports
from testing.processes import JARS

VARIABLE: Final = "BMQ_SHARED_DAEMONS"
FILE_NAME: Final = "daemons.json"
READY: Final = "shared daemons are ready"


def shared_hdfs() -> HdfsCluster | None:
    """The run's HDFS, with its addresses and files; it takes no orders. None when this run has none."""
    found = _found("hdfs")
    if found is None:
        return None
    return HdfsCluster(Path(found["directory"]), JARS / "hadoop", plan=ClusterPlan.of_json(found["plan"]))


def shared_zookeeper() -> ZooKeeperServer | None:
    """The run's ZooKeeper, with its address; it takes no orders. None when this run has none."""
    found = _found("zookeeper")
    if found is None:
        return None
    return ZooKeeperServer(Path(found["directory"]), JARS / "zookeeper", plan=ZooKeeperPlan.of_json(found["plan"]))


def _found(name: str) -> Any:
    path = os.environ.get(VARIABLE)
    return json.loads(Path(path).read_text())[name] if path else None


def main() -> None:
    from testing.hdfs import new_cluster, outside_any_loop
    from testing.zookeeper import new_zookeeper

    directory = Path(sys.argv[1])
    names = iter(range(1_000))
    hdfs = started_on_free_ports(lambda: new_cluster(directory / f"hdfs-{next(names)}"), outside_any_loop)
    zookeeper = started_on_free_ports(lambda: new_zookeeper(directory / f"zookeeper-{next(names)}"), outside_any_loop)
    found = {
        name: {"directory": str(daemons.directory), "plan": asdict(daemons.plan)}  # type: ignore[attr-defined]
        for name, daemons in {"hdfs": hdfs, "zookeeper": zookeeper}.items()
    }
    (directory / FILE_NAME).write_text(json.dumps(found))
    print(READY, flush=True)
    sys.stdin.read()
    outside_any_loop(zookeeper.stop())
    outside_any_loop(hdfs.stop())


if __name__ == "__main__":
    main()
