"""What the small benchmarks of a whole cluster share: their options, a stage in a directory of its own, and a warm-up."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.cluster.sides import Side
from bench.cluster.stage import Stage
from bench.criteria import BMQ, KAFKA
from bench.hdfs.commands import prepare_process
from bench.loads.client import Client
from bench.loads.loads import PARTITIONS, RECORD_BYTES, WARM_UP, make_topic


def options(doc: str | None) -> argparse.ArgumentParser:
    """With `--server`."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=(BMQ, KAFKA), default=BMQ)
    return parser


@contextmanager
def staged(name: str) -> Iterator[Stage]:
    """A stage in a temporary directory (`stage.directory`). Both are gone afterwards."""
    prepare_process()
    with TemporaryDirectory(prefix=f"bmq-{name}-") as directory:
        stage = Stage(Path(directory))
        try:
            yield stage
        finally:
            stage.down()


def warm_up(side: Side, client: Client, seconds: float) -> None:
    """Records of 1 KiB as fast as they go: for half a minute a JVM's compiler takes more than its work."""
    make_topic(side, WARM_UP, PARTITIONS)
    client.produce(
        side.bootstrap, side.pids, WARM_UP, PARTITIONS, record_bytes=RECORD_BYTES, warm_s=0.0, seconds=seconds
    )
