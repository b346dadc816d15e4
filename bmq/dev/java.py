"""The Java command line of a server's main class, Hadoop's or ZooKeeper's."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bmq.protocol.errors import BmqError

# Half the time and CPU of a start: compile once and simply, collect in one thread, trust the jars' bytecode.
QUICK_START_JVM_OPTIONS: Final = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:+UnlockDiagnosticVMOptions",
    "-XX:-BytecodeVerificationRemote",
    "-XX:-UsePerfData",
)
# For figures: the compiler a real cluster would use.
STEADY_JVM_OPTIONS: Final = ("-XX:+UseSerialGC",)
# Where `make jars` puts them.
_JARS: Final = Path(__file__).resolve().parents[2] / ".cache" / "jars"
HADOOP_JARS: Final = _JARS / "hadoop"
ZOOKEEPER_JARS: Final = _JARS / "zookeeper"


class JavaMissing(BmqError):
    """There is no `java` to run."""


class JarsMissing(BmqError):
    """The jars of a program were not fetched."""


def java_executable() -> str:
    """The `java` of JAVA_HOME, else the one on the path. Raises JavaMissing."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    if found is None:
        where = f"under JAVA_HOME ({home})" if home else "on the path"
        raise JavaMissing(f"there is no java {where}: run `make tools`, or install Java 17 or newer")
    return str(Path(found).resolve())


def class_path(jars: Path) -> str:
    """All jars of a directory. Raises JarsMissing when there are none."""
    found = sorted(jars.glob("*.jar"))
    if not found:
        raise JarsMissing(f"there are no jars in {jars}: run `make jars`")
    return ":".join(str(jar.resolve()) for jar in found)


def java_command(
    main_class: str, arguments: Sequence[str], *, jars: Path, configuration: Path, heap_mb: int, options: Sequence[str]
) -> list[str]:
    """The command line of one JVM; `configuration` is a directory of the class path. Raises JavaMissing, JarsMissing.

    The jars come first: a class archive is usable while the class path begins as it did when the archive was made.
    """
    return [
        java_executable(),
        *options,
        f"-Xmx{heap_mb}m",
        "-XX:+ExitOnOutOfMemoryError",  # a daemon that exits is noticed; one that limps on is not
        "-Djava.net.preferIPv4Stack=true",
        "-cp",
        f"{class_path(jars)}:{configuration}",
        main_class,
        *arguments,
    ]
