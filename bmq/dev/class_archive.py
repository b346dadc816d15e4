"""An archive of Hadoop's classes for class data sharing in the JVM: a third less CPU for every start.

The first cluster that runs without an archive lists the classes its daemons load, and leaves an archive beside the jars
when it stops; `make jars` removes it together with them. A JVM that cannot use the archive starts without it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog

from bmq.dev.daemon import Daemon, DaemonFailed
from bmq.dev.java import class_path, java_executable

DUMP_WAIT_S: Final = 180.0  # 10 s of CPU, on a machine that may be busy
LIST_BYTES_MAX: Final = 16 * 1024 * 1024

_log = structlog.get_logger("bmq.dev")


class ClassArchive:
    """For one set of jars, one Java and one set of options. Raises JavaMissing, JarsMissing."""

    def __init__(self, jars: Path, options: Sequence[str]) -> None:
        self._jars = jars
        self._options = tuple(options)
        java = Path(java_executable())
        made_of = [str(java), str(java.stat().st_mtime_ns), *options]
        for jar in class_path(jars).split(":"):
            made_of += [jar, str(Path(jar).stat().st_size)]
        digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
        self.path = jars.resolve() / f"classes-{digest}.jsa"

    @property
    def is_there(self) -> bool:
        return self.path.exists()

    def options(self) -> tuple[str, ...]:
        """JVM options for a daemon that uses the archive."""
        return (f"-XX:SharedArchiveFile={self.path}",)

    def listing_options(self, class_list: Path) -> tuple[str, ...]:
        """JVM options for a daemon that lists the classes it loads."""
        return (f"-XX:DumpLoadedClassList={class_list}",)

    async def make(self, class_lists: Iterable[Path], directory: Path) -> None:
        """Write the archive of all the classes listed. The archive is optional, so a failure is only logged."""
        merged = directory / "classes.txt"
        fresh = self.path.with_suffix(f".{os.getpid()}")
        _log.info("making_class_archive", path=str(self.path))
        try:
            merged.write_text("".join(_merged(class_lists)))
            dump = Daemon(
                "the dump of the class archive",
                [
                    java_executable(),
                    *self._options,
                    "-Xshare:dump",
                    f"-XX:SharedClassListFile={merged}",
                    f"-XX:SharedArchiveFile={fresh}",
                    "-cp",
                    class_path(self._jars),
                ],
                directory / "dump.log",
                _no_server,
            )
            dump.spawn()
            try:
                if await dump.wait_ended(DUMP_WAIT_S) != 0:
                    raise DaemonFailed(f"{dump.name} ended with {dump.exit_text}{dump.log_tail()}")
            finally:
                await dump.kill()
            fresh.replace(self.path)
        except (OSError, DaemonFailed) as error:
            _log.warning("no_class_archive", path=str(self.path), reason=str(error))
        finally:
            fresh.unlink(missing_ok=True)


def _merged(class_lists: Iterable[Path]) -> list[str]:
    """The lines of all lists, each once. The last line of a killed JVM's list may be a part of one."""
    lines: dict[str, None] = {}
    for class_list in class_lists:
        with class_list.open() as file:
            text = file.read(LIST_BYTES_MAX)
        lines.update(dict.fromkeys(line for line in text.splitlines(keepends=True) if line.endswith("\n")))
    return list(lines)


async def _no_server() -> str | None:
    return "it is no server"
