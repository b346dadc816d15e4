"""Plans of clusters nobody starts, and what a cluster object needs to exist without Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.dev.hadoop_configuration import ClusterPlan
from bmq.dev.hdfs import HdfsCluster


def plan_of(*, namenodes: int = 1, datanodes: int = 3, first_port: int = 20_000) -> ClusterPlan:
    count = 2 * namenodes + 3 * datanodes
    return ClusterPlan.of_ports(tuple(range(first_port, first_port + count)), namenodes=namenodes, datanodes=datanodes)


def make_java(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something that looks like a Java and is the one to use; it prints its last words and ends with 3."""
    executable = directory / "jdk" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\necho no JVM today\nexit 3\n")
    executable.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(directory / "jdk"))
    return executable


def make_jars(directory: Path) -> Path:
    """Empty files by the names of jars, and one that is none."""
    jars = directory / "jars"
    jars.mkdir()
    for name in ("b.jar", "a.jar", "notes.txt"):
        (jars / name).write_text("")
    return jars


def cluster_without_java(directory: Path, monkeypatch: pytest.MonkeyPatch, *, namenodes: int = 1) -> HdfsCluster:
    """A cluster none of whose daemons can start."""
    make_java(directory, monkeypatch)
    return HdfsCluster(directory / "cluster", make_jars(directory), plan=plan_of(namenodes=namenodes))
