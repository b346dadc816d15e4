"""The file that describes the cluster in a development directory, and says where a running one takes orders."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final, Generic, TypeVar

from bmq.dataclass import dataclass
from bmq.dev.cluster import Plan
from bmq.hdfs.config import Address
from bmq.protocol.errors import BmqError

FILE_NAME: Final = "cluster.json"
LOCK_NAME: Final = "lock"
FILE_BYTES_MAX: Final = 1024 * 1024

PlanT = TypeVar("PlanT", bound=Plan)


class NoCluster(BmqError):
    """The directory holds no cluster, or none is running on it."""


class ClusterBusy(BmqError):
    """A cluster is running on the directory already."""


class BadClusterFile(BmqError):
    """The file exists but was not written by this program."""


@dataclass(frozen=True, slots=True)
class ClusterFile(Generic[PlanT]):
    """`control`: where the process that runs the cluster takes orders; `pid`: its id. None while it does not run."""

    plan: PlanT
    control: Address | None = None
    pid: int | None = None

    def write(self, directory: Path) -> None:
        """Replace the file as a whole."""
        directory.mkdir(parents=True, exist_ok=True)
        fresh = directory / f"{FILE_NAME}.new"
        fresh.write_text(json.dumps(asdict(self), indent=1) + "\n")
        fresh.replace(directory / FILE_NAME)

    @staticmethod
    def read(directory: Path, plan_class: type[PlanT]) -> ClusterFile[PlanT] | None:
        """None when there is no such file. Raises BadClusterFile, also when it is the file of another kind of cluster."""
        path = directory / FILE_NAME
        try:
            with path.open("rb") as file:
                found = json.loads(file.read(FILE_BYTES_MAX))
            control = Address(*found["control"]) if found["control"] else None
            return ClusterFile(plan_class.of_json(found["plan"]), control, found["pid"])
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadClusterFile(f"{path} is not a file of such a development cluster ({error!r})") from None


@contextmanager
def exclusive(directory: Path) -> Iterator[None]:
    """Lock the directory for this process, until it ends in whatever way. Raises ClusterBusy."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise NoCluster(f"{directory} cannot be used as a cluster's directory: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ClusterBusy(f"a cluster is running on {directory} already") from None
        yield
    finally:
        os.close(descriptor)
