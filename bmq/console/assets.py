"""The console's files as they are sent: each with its type, its gzip form and its ETag.

They are read and compressed at the first request. A node whose console nobody visits keeps nothing of them in memory. Only names
that are in the directory are served, so a request cannot lead out of it.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from bmq.dataclass import dataclass

PAGE: Final = "index.html"
CONTENT_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
}
"""By the end of a file's name. Other files are not served."""
_GZIP_LEVEL: Final = 9


@dataclass(frozen=True, slots=True)
class Asset:
    """One file. `etag`: weak, as one is for both forms (RFC 9110)."""

    content_type: str
    body: bytes
    gzipped: bytes
    etag: str


def assets_in(directory: Traversable) -> Mapping[str, Asset]:
    """The files of a directory that browsers may have, by name. Raises OSError."""
    found = {}
    for file in directory.iterdir():
        content_type = CONTENT_TYPES.get(file.name.rpartition(".")[2])
        if content_type is not None:
            body = file.read_bytes()
            # mtime=0: the same file gives the same bytes on all nodes.
            gzipped = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            found[file.name] = Asset(content_type, body, gzipped, f'W/"{hashlib.sha256(body).hexdigest()[:32]}"')
    return found


class Assets:
    """The files of the installed package, or of `directory`. They are read once."""

    def __init__(self, directory: Traversable | None = None) -> None:
        self._directory = directory
        self._found: Mapping[str, Asset] | None = None

    @property
    def is_loaded(self) -> bool:
        """Whether they are in memory."""
        return self._found is not None

    def named(self, name: str) -> Asset | None:
        """The file, None for a name that is not served. The first call reads files, so it belongs into a thread.

        Raises OSError.
        """
        if self._found is None:
            self._found = assets_in(self._directory or files("bmq.console") / "static")
        return self._found.get(name)
