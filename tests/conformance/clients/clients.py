"""The clients of the matrix: what each is called, and the command that runs its program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Final

from testing.java import compile_program, program_command
from testing.processes import JARS, REPOSITORY, ProcessFailed

SUPPORT: Final = REPOSITORY / "tests" / "support"
COMPILING_MAX_S: Final = 400.0
Prepare = Callable[[Path], list[str]]


@dataclass(frozen=True, slots=True)
class Client:
    """`prepare`: compiles what has to be compiled, below a directory, and returns the command without its arguments."""

    name: str
    version: Callable[[], str]
    """Asked for only when it is run: not every machine has all of them."""
    prepare: Prepare


def all_clients() -> list[Client]:
    return [
        *(Client(name, partial(_jar_version, jars), partial(_java, jars)) for name, jars in JAVA_JARS.items()),
        Client("librdkafka", _librdkafka_version, partial(_python, "librdkafka")),
        Client("aiokafka", partial(version, "aiokafka"), partial(_python, "aiokafka_client")),
        Client("kafka-python", partial(version, "kafka-python"), partial(_python, "kafka_python")),
        Client("franz-go", partial(_module_version, "github.com/twmb/franz-go"), partial(_go, "scenario_franz")),
        Client("sarama", partial(_module_version, "github.com/IBM/sarama"), partial(_go, "scenario_sarama")),
        Client("kcat", _kcat_version, partial(_python, "kcat")),
    ]


JAVA_JARS: Final = {"Java 2": "kafka-clients-2.8", "Java 3": "kafka-clients-3.9", "Java 4": "kafka"}
"""By the client's name: the directory of its jars."""


def _librdkafka_version() -> str:
    import confluent_kafka

    found: str = confluent_kafka.libversion()[0]
    return found


def _python(program: str, _: Path) -> list[str]:
    return [sys.executable, "-m", f"tests.conformance.clients.programs.{program}"]


def _java(jars: str, directory: Path) -> list[str]:
    """Compiled against each version's own jars: what one of them lacks is noticed here."""
    classes = directory / jars
    classes.mkdir(parents=True, exist_ok=True)
    compile_program(SUPPORT / "java_programs" / "ClientScenario.java", jars, classes)
    return program_command("ClientScenario", jars, classes, [])


def _jar_version(jars: str) -> str:
    (jar,) = (JARS / jars).glob("kafka-clients-*.jar")
    return jar.stem.rpartition("-")[2]


def _go(program: str, directory: Path) -> list[str]:
    target = directory / "go" / program
    done = subprocess.run(
        [str(Path(sys.executable).with_name("go")), "build", "-o", str(target), f"./{program}"],
        cwd=SUPPORT / "go_programs",
        env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"},
        capture_output=True,
        text=True,
        timeout=COMPILING_MAX_S,
        check=False,
    )
    if done.returncode:
        raise ProcessFailed(f"{program} does not compile\n{done.stderr}")
    return [str(target)]


def _module_version(module: str) -> str:
    lines = (SUPPORT / "go_programs" / "go.mod").read_text().split("\n")
    return next(line.split()[1].removeprefix("v") for line in lines if line.split()[:1] == [module])


def _kcat_version() -> str:
    """kcat does not say it but among other words."""
    done = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=20, check=False)
    return next(line.split()[1] for line in (done.stdout + done.stderr).splitlines() if line.startswith("Version"))
