"""A server is ready soon because it imports only what it serves with: what is slow and not needed must not come back."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

STANDALONE = """
import sys

compiled = []


def note(event, of):
    if event == "compile" and sys._getframe(1).f_globals.get("__name__") == "dataclasses":
        frame = sys._getframe(1)
        while frame.f_globals["__name__"] == "dataclasses":
            frame = frame.f_back
        if frame.f_globals["__name__"].startswith("bmq."):
            compiled.append(frame.f_globals["__name__"])


sys.addaudithook(note)
import bmq.cli.main, bmq.cli.commands, bmq.server.process, bmq.local_store.store
print(*sorted({name for name in sys.modules}))
print(len(compiled))
"""
COMPILED_MAX = 100
"""Methods of dataclasses compiled at a start, 0.1 ms each. There are 46, and were 2,400 before bmq/dataclass.py."""
NOT_NEEDED = (
    ("fastapi", "the REST pages are built when they are asked for"),
    ("httpx", "only `bmq cluster` asks others"),
    ("confluent_kafka", "only commands that are clients of a cluster need it"),
    ("sqlglot", "only the filters of views are parsed"),
    ("opentelemetry", "only a server with `tracing.endpoint` traces"),
    ("kazoo", "a server of one process needs no election"),
    ("rich.live", "there may be no terminal"),
    ("bmq.dev", "a Hadoop cluster is for development"),
    ("bmq.hdfs.store", "the store is a local one"),
    ("bmq.hdfs.proto.hdfs_pb2", "the store is a local one"),
)


def test_a_start_imports_only_what_it_serves_with() -> None:
    ran = subprocess.run([sys.executable, "-c", STANDALONE], capture_output=True, text=True, check=True)
    modules, compiled = ran.stdout.splitlines()
    imported = set(modules.split())
    assert "bmq.server.standalone" in imported
    assert [(name, why) for name, why in NOT_NEEDED if name in imported] == []
    assert int(compiled) <= COMPILED_MAX
