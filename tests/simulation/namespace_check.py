"""One writer per epoch, as the store itself shows it."""

from __future__ import annotations

from bmq.log.names import CLEANED_ROLL_MIN, parse_epoch_directory, parse_owner
from tests.fakes.namespace import Directory, File, Namespace
from tests.simulation.history import Violation


def check_one_writer_per_epoch(namespace: Namespace) -> None:
    """All files of an epoch's directory were made by one process incarnation. Raises Violation.

    Names of owners aside: two servers that start together may take the same epoch, and each writes its name before it
    looks; at most one of them goes on (rule 1). Segments that a job cleaned were made by that, and moved here by the owner
    (rule 36).
    """
    _check(namespace.root, "")


def _check(directory: Directory, path: str) -> None:
    for name, node in directory.children.items():
        if not isinstance(node, Directory):
            continue
        here = f"{path}/{name}" if path else name
        if parse_epoch_directory(name) is None:
            _check(node, here)
            continue
        holders = {
            child.holder
            for child_name, child in node.children.items()
            if isinstance(child, File) and parse_owner(child_name) is None and not _is_of_a_job(child_name, child)
        }
        if len(holders) > 1:
            raise Violation(f"{here} was written by {', '.join(sorted(holders))}")


def _is_of_a_job(name: str, file: File) -> bool:
    stem, _, suffix = name.partition(".")
    return file.holder.startswith("job-") and suffix == "log" and int(stem) >= CLEANED_ROLL_MIN
