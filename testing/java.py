"""Run a main class of Apache Kafka's jars: its command line tools, exactly as its own scripts do."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from testing.kept_files import cache_directory, kept_directory, key_of
from testing.patience import Patience
from testing.processes import JARS, REPOSITORY, ProcessFailed, dying_with_us

LOG_SETTINGS = REPOSITORY / "deploy" / "dev" / "kafka" / "log4j2.xml"

# A tool lives for a second or two: compiling to the last level and a parallel collector would only cost time.
SHORT_LIVED_JVM_OPTIONS = ("-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
# What bin/kafka-producer-perf-test.sh and bin/kafka-run-class.sh pass.
PERFORMANCE_JVM_OPTIONS = (
    "-Xmx512M",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONFIGS = "kafka.admin.ConfigCommand"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
BROKER_API_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"
REASSIGN_PARTITIONS = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
CLIENT_METRICS = "org.apache.kafka.tools.ClientMetricsCommand"
CLUSTER = "org.apache.kafka.tools.ClusterTool"
FEATURES = "org.apache.kafka.tools.FeatureCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
METADATA_QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@dataclass(frozen=True, slots=True)
class ToolResult:
    """How a tool ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


def java_executable() -> str:
    """The JVM to use: JAVA_HOME's, else the one on the path. Raises ProcessFailed when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found:
        raise ProcessFailed("no Java found: run `make tools` (installs it as root, else says what to install)")
    return found


def class_path(name: str) -> str:
    """All jars of .cache/jars/`name`; empty when they were not fetched."""
    return ":".join(str(jar) for jar in sorted((JARS / name).glob("*.jar")))


def java_command(
    main_class: str, arguments: Sequence[str], jvm_options: Sequence[str] = SHORT_LIVED_JVM_OPTIONS
) -> list[str]:
    logging = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
    return [java_executable(), *jvm_options, logging, "-cp", _fetched("kafka"), main_class, *arguments]


def compile_program(source: Path, jars: str, classes: Path) -> None:
    """Compile one source file against .cache/jars/`jars`, or take what an earlier run compiled of the same.

    Raises ProcessFailed with the compiler's words.
    """

    def compile_into(directory: Path) -> None:
        command = [_compiler(), "-cp", _fetched(jars), "-d", str(directory), str(source)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=Patience(120).limit_s, check=False)
        if done.returncode:
            raise ProcessFailed(f"{source.name} does not compile\n{done.stdout}{done.stderr}")

    place = cache_directory() / "classes" / f"{source.stem}-{key_of(_compiled_from(source, jars))}"
    shutil.copytree(kept_directory(place, compile_into), classes, dirs_exist_ok=True)


def _compiled_from(source: Path, jars: str) -> Iterator[bytes]:
    """The source, the compiler's release, and the jars by name, as these have their versions."""
    yield source.read_bytes()
    release = Path(_compiler()).parents[1] / "release"
    yield release.read_bytes() if release.exists() else _compiler().encode()
    yield from (Path(jar).name.encode() for jar in _fetched(jars).split(":"))


def program_command(main_class: str, jars: str, classes: Path, arguments: Sequence[str]) -> list[str]:
    """How to run what `compile_program` made."""
    logging = f"-Dlog4j2.configurationFile={LOG_SETTINGS}"
    path = f"{classes}:{_fetched(jars)}"
    return [java_executable(), *SHORT_LIVED_JVM_OPTIONS, logging, "-cp", path, main_class, *arguments]


def _fetched(jars: str) -> str:
    found = class_path(jars)
    if not found:
        raise ProcessFailed(f"no jars under {JARS / jars}: run `make jars`")
    return found


def _compiler() -> str:
    compiler = Path(java_executable()).resolve().parent / "javac"
    if not compiler.exists():
        raise ProcessFailed("no Java compiler found: run `make tools` (installs it as root, else says what to install)")
    return str(compiler)


def run_tool(
    main_class: str,
    *arguments: str,
    stdin: str = "",
    timeout_s: float = 60,
    jvm_options: Sequence[str] = SHORT_LIVED_JVM_OPTIONS,
    check: bool = True,
) -> ToolResult:
    """Run one tool to its end. Raises ProcessFailed when it takes longer than `timeout_s` of patience or, with `check`, ends with an error."""
    command = dying_with_us(java_command(main_class, arguments, jvm_options))
    what = f"{main_class.rpartition('.')[2]} {' '.join(arguments)}"
    limit_s = Patience(timeout_s).limit_s
    try:
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired as expired:
        raise ProcessFailed(f"{what} ran longer than {limit_s:.0f} s\n{expired.stdout!r}\n{expired.stderr!r}") from None
    result = ToolResult(done.returncode, done.stdout, done.stderr)
    if check and result.code != 0:
        raise ProcessFailed(f"{what} ended with {result.code}\n{result.text}")
    return result
