"""Differences that are meant, each with its reason: the reviewed list. An entry that nothing meets any more is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.tools_table.compare import ComparedStep, Difference


@dataclass(frozen=True, slots=True)
class Intended:
    """`tools`, `cases`: shell patterns. `bmq`, `kafka`: expressions, one of which a differing line of that side has to match
    from its beginning. Every line of a difference needs an entry that names it. `refusal`: what a line of bmq's says when
    the whole command is not served there, and Kafka may print anything."""

    name: str
    reason: str
    tools: tuple[str, ...]
    cases: tuple[str, ...] = ("*",)
    bmq: tuple[str, ...] = ()
    kafka: tuple[str, ...] = ()
    refusal: str = ""

    def is_for(self, tool: str, case: str) -> bool:
        return any(fnmatchcase(tool, pattern) for pattern in self.tools) and any(
            fnmatchcase(case, pattern) for pattern in self.cases
        )

    def meets(self, side: str, line: str) -> bool:
        return any(re.match(pattern, line) for pattern in (self.bmq if side == "bmq" else self.kafka))


INTENDED: Final[tuple[Intended, ...]] = (
    Intended(
        "Defaults that are named",
        "Kafka writes the cluster's min.insync.replicas into its metadata, for its eligible leader replicas; bmq's segments have 128 MiB instead of 1 GiB. Tools name both "
        "at every topic, as if they had been given.",
        ("kafka-topics", "kafka-configs"),
        bmq=(
            r"Config: segment\.bytes=134217728$",
            r" (log\.)?segment\.bytes=.*STATIC_BROKER_CONFIG:log\.segment\.bytes=134217728",
            r" min\.insync\.replicas=1 .*DEFAULT_CONFIG:min\.insync\.replicas=1}$",
        ),
        kafka=(
            r"Config: min\.insync\.replicas=1$",
            r" min\.insync\.replicas=1 .*DYNAMIC_DEFAULT_BROKER_CONFIG:min\.insync\.replicas=1",
            r" (log\.)?segment\.bytes=.*DEFAULT_CONFIG:log\.segment\.bytes=1073741824}$",
        ),
    ),
    Intended(
        "No log directories to cordon",
        "Kafka adds that directories may be cordoned when there are too few brokers. bmq's brokers have no directories of their own.",
        ("kafka-topics",),
        bmq=(r".*The target replication factor of 3 cannot be reached because only 1 broker\(s\) are registered\.$",),
        kafka=(r".*registered or some brokers have all their log directories cordoned\.$",),
    ),
    Intended(
        "Share groups as of Kafka 4.4",
        "bmq has the dead letters of KIP-1191 and level 2 of the feature share.version, which Kafka 4.4 has added.",
        ("kafka-configs", "kafka-features"),
        bmq=(r" errors\.deadletterqueue\.", r"Feature: share\.version SupportedMinVersion: 0 SupportedMaxVersion: 2 "),
        kafka=(r"Feature: share\.version SupportedMinVersion: 0 SupportedMaxVersion: 1 ",),
    ),
    Intended(
        "Configs of bmq's own",
        "What bmq adds to Kafka's configs is described with them.",
        ("kafka-configs",),
        bmq=(r" bmq\.",),
    ),
    Intended(
        "Settings of the servers",
        "The Kafka beside it is told its controller's address, and to have one replica of everything. bmq takes 10,000 connections at most, "
        "its cleaner maps keys in 64 MiB, and it has no controller of that kind.",
        ("kafka-configs",),
        ("all of a broker",),
        bmq=(
            r" (controller\.|listeners=|max\.connections=10000 |share\.coordinator\.state\.topic\.)",
            r" log\.cleaner\.dedupe\.buffer\.size=67108864 ",
        ),
        kafka=(
            r" (controller\.|listeners=|max\.connections=2147483647 |share\.coordinator\.state\.topic\.)",
            r" log\.cleaner\.dedupe\.buffer\.size=134217728 ",
        ),
    ),
    Intended(
        "Listeners are fixed",
        "Kafka can change a broker's listeners while it runs. bmq's are what it was started with.",
        ("kafka-configs",),
        ("brokers",),
        bmq=(r"stderr: .*Cannot update these configs dynamically: \[listeners\]$",),
        kafka=(
            r"stderr: .*controller\.listener\.names must contain at least one value",
            r"stderr: .*Cannot update these configs at default cluster level, broker id must be specified: \[listeners\]$",
        ),
    ),
    Intended(
        "Features of parts that bmq does not have",
        "KRaft's metadata and quorum, and eligible leader replicas are no features of bmq: they are not described, and an upgrade that names them, or a "
        "release with them, is refused.",
        ("kafka-features",),
        kafka=(r"Feature: (eligible\.leader\.replicas|kraft|metadata)\.version ",),
        refusal=r"for feature (kraft|metadata)\.version\. Local controller 1 does not support this feature",
    ),
    Intended(
        "No quorum of controllers",
        "A bmq node answers for the metadata log as its only voter: at its own address, without a directory id, and there is nothing to be added or removed.",
        ("kafka-metadata-quorum",),
        bmq=(r'CurrentVoters: \[{"id": 1, "endpoints": \["CONTROLLER://SERVER"\]}\]',),
        kafka=(
            r'CurrentVoters: \[{"id": 1, ("directoryId": "[\w-]+", )?"endpoints": \["CONTROLLER://127\.0\.0\.1:\d+"\]}\]',
        ),
        refusal="because the kraft.version feature is 0",
    ),
    Intended(
        "APIs and versions of each",
        "bmq speaks the versions and APIs that Kafka 4.4 has added, and the older telemetry APIs without a plugin; it does not announce what it does not serve.",
        ("kafka-broker-api-versions",),
        bmq=(
            r" (Sasl|\w+Acls|\w+DelegationToken|\w+ClientQuotas|\w+ScramCredentials|\w*Share\w*)\w*\(\d+\): UNSUPPORTED,$",
            r" (ApiVersions|TxnOffsetCommit|DeleteGroups|StreamsGroupHeartbeat|StreamsGroupDescribe)\(\d+\): ",
            r" (GetTelemetrySubscriptions|PushTelemetry)\(\d+\): 0 ",
            r" DeleteShareGroupOffsets\(92\): 0 \[usable: 0\],$",
            r" UNKNOWN\(9[34]\): 0",
        ),
        kafka=(
            r" (Sasl|\w+Acls|\w+DelegationToken|\w+ClientQuotas|\w+ScramCredentials|\w*Share\w*)\w*\(\d+\): \d",
            r" (ApiVersions|TxnOffsetCommit|DeleteGroups|StreamsGroupHeartbeat|StreamsGroupDescribe)\(\d+\): ",
            r" (GetTelemetrySubscriptions|PushTelemetry)\(\d+\): UNSUPPORTED,$",
        ),
    ),
    Intended(
        "A reason in words",
        "bmq says how large a refused batch was, and what is allowed.",
        ("kafka-console-producer",),
        bmq=(r"stderr: .*RecordTooLargeException: a record batch of \d+ bytes, 200 are allowed$",),
        kafka=(r"stderr: .*RecordTooLargeException: The request included a message larger than the max message size",),
    ),
    Intended(
        "Records of the servers themselves",
        "Their keys and values mean the same. Those that bmq writes for itself have no sequence; a transaction's names the producer id before only if it was another one; "
        "the key of a metadata record is empty instead of absent. A file's name is its number in the log instead of its first offset.",
        ("kafka-dump-log",),
        ("segments of internal topics",),
        bmq=(
            r'\| offset: N .* sequence: -1 .* key: {"type":"1"',
            r'\| offset: N .* payload: {"version":"1","data":{"producerId":N,"producerEpoch":',
            r'\| offset: N .* keySize: 0 .* payload: {"type":"TOPIC_RECORD"',
            r"stderr: Non-consecutive offsets in FILE$",
            r"stderr: +-1 is followed by \d+$",
        ),
        kafka=(
            r'\| offset: N .* sequence: 0 .* key: {"type":"1"',
            r'\| offset: N .* payload: {"version":"1","data":{"producerId":N,"previousProducerId":N,"producerEpoch":',
            r'\| offset: N .* keySize: -1 .* payload: {"type":"TOPIC_RECORD"',
        ),
    ),
    Intended(
        "A group with nothing left is gone",
        "In bmq a group ends with its last offset when it has no members. Kafka keeps the empty group until it next looks for such, every ten minutes.",
        ("kafka-consumer-groups",),
        ("delete offsets",),
        refusal="GroupIdNotFoundException",
    ),
)


def reasons_for(
    tool: str, case: str, step: ComparedStep, difference: Difference, entries: Sequence[Intended] = INTENDED
) -> set[str] | None:
    """The names of the entries that explain all of its lines; None when one has no entry."""
    applying = [entry for entry in entries if entry.is_for(tool, case)]
    for entry in applying:
        if entry.refusal and any(re.search(entry.refusal, line) for line in step.bmq):
            return {entry.name}
    names = set()
    for side, lines in (("bmq", difference.bmq), ("kafka", difference.kafka)):
        for line in lines:
            met = next((one for one in applying if one.meets(side, line)), None)
            if met is None:
                return None
            names.add(met.name)
    return names
