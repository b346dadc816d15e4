"""The daemons that the stages of a run share, from the first stage that needs them to the end of the run."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from testing.shared_daemons import FILE_NAME, READY, VARIABLE

STOP_WAIT_S: Final = 60.0
LOG_TAIL_BYTES: Final = 4_000


class SharedDaemons:
    """A context. When they do not start, that is printed, and each stage starts its own.

    They end with this process, however it ends: their parent reads from a pipe that ends with it.
    """

    def __init__(self, repository: Path) -> None:
        self._repository = repository
        self._holder: subprocess.Popen[str] | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._environment: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holder is not None:
            assert self._holder.stdin is not None and self._holder.stdout is not None
            with contextlib.suppress(BrokenPipeError):
                self._holder.stdin.close()
            try:
                self._holder.wait(STOP_WAIT_S)
            except subprocess.TimeoutExpired:
                self._holder.kill()
                self._holder.wait()
            self._holder.stdout.close()
        if self._directory is not None:
            self._directory.cleanup()

    def environment(self) -> Mapping[str, str]:
        """What a stage is given; the first call starts them."""
        if self._directory is None:
            self._directory = tempfile.TemporaryDirectory(prefix="bmq-daemons-", ignore_cleanup_errors=True)
            self._start(Path(self._directory.name))
        return self._environment

    def _start(self, directory: Path) -> None:
        log = directory / "holder.log"
        with log.open("wb") as errors:
            self._holder = subprocess.Popen(
                [sys.executable, "-m", "testing.shared_daemons", str(directory)],
                cwd=self._repository,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        assert self._holder.stdout is not None
        # The daemons have limits of their own for their start; the line or the end comes.
        if self._holder.stdout.readline().strip() == READY:
            self._environment = {VARIABLE: str(directory / FILE_NAME)}
        else:
            said = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
            print(f"warning: the shared daemons did not start, each stage starts its own: {said}", flush=True)
