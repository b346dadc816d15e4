"""A compressed archive that stays within bounds, and lists what it has and what could not be had."""

from __future__ import annotations

import io
import json
import re
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, Final

from bmq.cli.private_file import MODE, private_file
from bmq.dataclass import dataclass
from bmq.protocol.errors import BmqError

ENTRY_BYTES_MAX: Final = 4 << 20
BUNDLE_BYTES_MAX: Final = 64 << 20
"""Of all entries, before they are compressed."""
CONTENTS: Final = "contents.json"
_NAME_CHARACTERS: Final = re.compile(r"[^A-Za-z0-9._/-]+")


class NoBundle(BmqError):
    """The file cannot be written; one sentence."""


@dataclass(slots=True)
class Contents:
    """`missing`: what could not be had, and why. `cut`: entries of which only a part is there."""

    entries: dict[str, int] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    cut: list[str] = field(default_factory=list)


@contextmanager
def new_archive(path: Path, redact: Callable[[str], str], *, bytes_max: int = BUNDLE_BYTES_MAX) -> Iterator[Archive]:
    """A new tar.gz that only its owner reads. When the body raises, the file is removed. Raises NoBundle."""
    with private_file(path, _no_bundle) as file, tarfile.open(fileobj=file, mode="w:gz") as tar:
        archive = Archive(tar, path, redact, bytes_max)
        yield archive
        archive.add_contents()


class Archive:
    """What goes into one archive. `redact`: passes over each text."""

    def __init__(self, tar: tarfile.TarFile, path: Path, redact: Callable[[str], str], bytes_max: int) -> None:
        self.contents = Contents()
        self._tar = tar
        self._path = path
        self._folder = path.name.removesuffix(".tar.gz")
        self._redact = redact
        self._left_bytes = bytes_max

    def add_text(self, name: str, text: str, *, is_end: bool = False, is_cut: bool = False) -> None:
        """Add a text, without its secrets. `is_end`: of a longer text the end is kept, else the beginning."""
        data = self._redact(text).encode(errors="replace")
        bytes_max = min(ENTRY_BYTES_MAX, self._left_bytes)
        if len(data) > bytes_max:
            data = data[-bytes_max:] if is_end else data[:bytes_max]
            is_cut = True
        if not data and is_cut:
            self.contents.missing[name] = "the bundle is full"
            return
        name = _plain_name(name, self.contents.entries)
        if is_cut:
            self.contents.cut.append(name)
        self._left_bytes -= len(data)
        self.contents.entries[name] = len(data)
        self._write(name, data)

    def add_json(self, name: str, document: Any) -> None:
        self.add_text(name, json.dumps(document, indent=2, default=str))

    def note_missing(self, name: str, why: str) -> None:
        """`why`: a sentence, in which secrets are blanked as well."""
        self.contents.missing[name] = self._redact(why)

    def add_contents(self) -> None:
        """The list of what is there and what is missing, as the last entry."""
        found = self.contents
        document = {"entries": found.entries, "cut": found.cut, "missing": found.missing}
        self._write(CONTENTS, json.dumps(document, indent=2).encode())

    def _write(self, name: str, data: bytes) -> None:
        entry = tarfile.TarInfo(f"{self._folder}/{name}")
        entry.size, entry.mode, entry.mtime = len(data), MODE, int(time.time())
        try:
            self._tar.addfile(entry, io.BytesIO(data))
        except OSError as error:
            raise _no_bundle(f"cannot write {self._path}: {error.strerror or error}") from error


def _no_bundle(why: str) -> NoBundle:
    return NoBundle(f"{why}; name another file with --out")


def _plain_name(name: str, taken: dict[str, int]) -> str:
    """Without signs that leave the archive's folder or a shell's word; another one if it is taken."""
    plain = "/".join(part.lstrip(".") or "_" for part in _NAME_CHARACTERS.sub("_", name).strip("/").split("/"))
    found, number = plain, 2
    while found in taken:
        found, number = f"{plain}.{number}", number + 1
    return found
