"""What is fuzzed: one decoder, or a few that belong together, that reads bytes from a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
"""Inputs that once found a fault: a directory for each target. Every run and the unit tests begin with them."""

NAMES: Final = (
    "frames",
    "requests",
    "responses",
    "internal_messages",
    "stored_records",
    "envelope",
    "batches",
    "compressed_bodies",
    "telemetry",
    "consumer_protocol",
    "share_requests",
    "share_states",
    "sasl",
    "bearer",
    "delegation_tokens",
    "certificates",
    "rest",
    "server",
    "hdfs_rpc",
    "hdfs_transfer",
    "hdfs_login",
    "zookeeper",
)
"""Each is a module in tests/fuzz/targets with a TARGET."""


@dataclass(frozen=True, slots=True)
class Target:
    """`check`: whether the decoder takes the input; False: it refuses it as it should. Any exception is a fault.

    `seeds`: inputs to begin with. `mutate`: changes an input knowing its format; None: bytes are changed blindly.
    `instrumented`: modules whose branches guide the search.
    """

    name: str
    seeds: Callable[[], Iterable[bytes]]
    check: Callable[[bytes], bool]
    instrumented: tuple[str, ...]
    mutate: Callable[[bytes, Random], bytes] | None = None


def target_of(name: str) -> Target:
    """Imports only this target's decoders, so that a process holds no more than it needs."""
    found: Target = import_module(f"tests.fuzz.targets.{name}").TARGET
    assert found.name == name
    return found


def kept_inputs(name: str) -> list[bytes]:
    """The inputs in the tree, by their names."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]
