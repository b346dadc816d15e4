"""What clients were told beside records, with the time: for who wants to know afterwards how something came about."""

from __future__ import annotations

import threading
import time
from pathlib import Path


class Journal:
    """Lines in a file, from any thread; the time is counted in seconds from `began_s`, by the monotonic clock."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self.began_s = time.monotonic()
        self._lock = threading.Lock()
        self._lines = file.open("w")

    def note(self, who: str, what: str) -> None:
        with self._lock:
            if not self._lines.closed:
                self._lines.write(f"{time.monotonic() - self.began_s:9.3f} {who}: {what}\n")
                self._lines.flush()

    def close(self) -> None:
        with self._lock:
            self._lines.close()
