"""The tools of Apache Kafka 4.3.0 by their scripts' names, and which options each says it has. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_OPTION: Final = re.compile(r"^(?:\* |  )?(?:-\w, )?(--[a-z][\w.-]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Tool:
    """`subcommands` have options of their own, which are named behind theirs: "list --duration-filter"."""

    name: str
    main: str
    subcommands: tuple[str, ...] = ()
    bootstrap: str = "--bootstrap-server"
    """The option that names the server; it stands behind a subcommand where `is_bootstrap_last`."""
    is_bootstrap_last: bool = False


def _tool(name: str, main: str, *subcommands: str, is_bootstrap_last: bool = False) -> Tool:
    return Tool(name, f"org.apache.kafka.tools.{main}", subcommands, is_bootstrap_last=is_bootstrap_last)


TOOLS: Final[Mapping[str, Tool]] = {
    tool.name: tool
    for tool in (
        _tool("kafka-topics", "TopicCommand"),
        Tool("kafka-configs", "kafka.admin.ConfigCommand"),
        _tool("kafka-consumer-groups", "consumer.group.ConsumerGroupCommand"),
        _tool("kafka-groups", "GroupsCommand"),
        _tool("kafka-streams-groups", "streams.StreamsGroupCommand"),
        _tool("kafka-share-groups", "consumer.group.ShareGroupCommand"),
        _tool(
            "kafka-transactions",
            "TransactionsCommand",
            "list",
            "describe",
            "describe-producers",
            "abort",
            "find-hanging",
            "forceTerminateTransaction",
        ),
        _tool("kafka-get-offsets", "GetOffsetShell"),
        _tool("kafka-delete-records", "DeleteRecordsCommand"),
        _tool("kafka-leader-election", "LeaderElectionCommand"),
        _tool("kafka-reassign-partitions", "reassign.ReassignPartitionsCommand"),
        _tool("kafka-log-dirs", "LogDirsCommand"),
        _tool("kafka-metadata-quorum", "MetadataQuorumCommand", "describe", "add-controller", "remove-controller"),
        _tool(
            "kafka-features",
            "FeatureCommand",
            "describe",
            "upgrade",
            "downgrade",
            "disable",
            "version-mapping",
            "feature-dependencies",
        ),
        _tool("kafka-client-metrics", "ClientMetricsCommand"),
        _tool("kafka-cluster", "ClusterTool", "cluster-id", "unregister", "list-endpoints", is_bootstrap_last=True),
        _tool("kafka-broker-api-versions", "BrokerApiVersionsCommand"),
        _tool("kafka-console-producer", "ConsoleProducer"),
        _tool("kafka-console-consumer", "consumer.ConsoleConsumer"),
        _tool("kafka-console-share-consumer", "consumer.ConsoleShareConsumer"),
        _tool("kafka-verifiable-producer", "VerifiableProducer"),
        _tool("kafka-verifiable-consumer", "VerifiableConsumer"),
        _tool("kafka-verifiable-share-consumer", "VerifiableShareConsumer"),
        _tool("kafka-producer-perf-test", "ProducerPerformance"),
        _tool("kafka-consumer-perf-test", "ConsumerPerformance"),
        _tool("kafka-share-consumer-perf-test", "ShareConsumerPerformance"),
        _tool("kafka-e2e-latency", "EndToEndLatency"),
        Tool("kafka-replica-verification", "org.apache.kafka.tools.ReplicaVerificationTool", bootstrap="--broker-list"),
        _tool("kafka-dump-log", "DumpLogSegments"),
        _tool("kafka-acls", "AclCommand"),
        _tool("kafka-delegation-tokens", "DelegationTokenCommand"),
        _tool("kafka-streams-application-reset", "StreamsResetter"),
    )
}


def options_of(help_text: str) -> list[str]:
    """As a tool's --help lists them, in its order."""
    return list(dict.fromkeys(_OPTION.findall(help_text)))


def used_options(tool: Tool, arguments: Sequence[str]) -> set[str]:
    """What `arguments` use, named as the table names them: behind a subcommand both with it and without."""
    used: set[str] = set()
    subcommand = ""
    for argument in arguments:
        if argument in tool.subcommands:
            subcommand = argument
            used.add(argument)
        elif argument.startswith("--"):
            option = argument.partition("=")[0]
            used |= {option, f"{subcommand} {option}".strip()}
    return used
