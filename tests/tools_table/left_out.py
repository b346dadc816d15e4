"""What is not compared: tools that do not apply, and options, each with its reason. The reviewed list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`tool` "*": of every tool."""

    tool: str
    options: tuple[str, ...]
    reason: str


OPTIONS: Final[tuple[LeftOut, ...]] = (
    LeftOut("*", ("--help", "--version"), "The tool prints it without asking a server."),
    LeftOut(
        "kafka-share-consumer-perf-test",
        (
            "--command-config",
            "--command-property",
            "--consumer.config",
            "--date-format",
            "--fetch-size",
            "--group",
            "--hide-header",
            "--messages",
            "--print-metrics",
            "--reporting-interval",
            "--show-consumer-stats",
            "--show-detailed-stats",
            "--socket-buffer-size",
            "--threads",
        ),
        "They say how records of a share group are measured, and bmq has no share groups.",
    ),
)

SCRIPTS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (
        ("kafka-storage", "kafka-metadata-shell", "kafka-server-start", "kafka-server-stop", "kafka-run-class"),
        "They are about Kafka's own server and its directory; `bmq standalone` and `bmq node` have nothing to format.",
    ),
    (
        ("connect-distributed", "connect-standalone", "connect-mirror-maker", "connect-plugin-path"),
        "Kafka Connect is a program of its own that talks to bmq as any client; `tests/e2e/test_connect.py` runs it.",
    ),
    (("kafka-jmx",), "It reads the metrics of a JVM, which bmq is not."),
    (("trogdor",), "It runs the load tests of Kafka's own developers."),
)


def reason_for(tool: str, option: str) -> str:
    """Empty: the option has to have a case. A subcommand's option also goes by its name alone."""
    names = {option, option.rpartition(" ")[2]}
    for entry in OPTIONS:
        wanted = names if entry.tool == "*" else {option}
        if entry.tool in ("*", tool) and wanted & set(entry.options):
            return entry.reason
    return ""
