"""Keeps account of files of runs to delete: those that an earlier manifest may name, and the newest does not."""

from __future__ import annotations

from bmq.log.manifest import Manifest
from bmq.log.names import PartitionPaths
from bmq.log.timers.run_reference import RunReference


class RunFiles:
    """The runs in one owner's manifests. A manifest may be in the store although its writing seemed to fail."""

    def __init__(self, paths: PartitionPaths) -> None:
        self._paths = paths
        self._maybe_named: dict[tuple[int, int], None] = {}
        self._unnamed: list[str] = []

    def tried(self, manifest: Manifest) -> None:
        """Note that this manifest is about to be written."""
        self._maybe_named.update(dict.fromkeys(map(_key_of, _runs_of(manifest))))

    def named(self, manifest: Manifest) -> None:
        """Note that this manifest is durable: runs that only earlier ones name may be deleted."""
        now = dict.fromkeys(map(_key_of, _runs_of(manifest)))
        epochs = manifest.epochs_named() | {self._paths.leader_epoch}
        for epoch, number in self._maybe_named.keys() - now.keys():
            self._unnamed.append(self._paths.run(epoch, number) if epoch in epochs else self._paths.epoch(epoch))
        self._maybe_named = now

    def take_unnamed(self) -> tuple[str, ...]:
        """Paths to delete: files and whole directories. Each is returned once."""
        unnamed, self._unnamed = tuple(dict.fromkeys(self._unnamed)), []
        return unnamed


def _runs_of(manifest: Manifest) -> tuple[RunReference, ...]:
    return () if manifest.timers is None else manifest.timers.runs


def _key_of(run: RunReference) -> tuple[int, int]:
    return run.leader_epoch, run.number
