"""The console's, the verifiable and the performance clients, kafka-replica-verification and kafka-dump-log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tests.tools_table.case import Cases
from tests.tools_table.cases.transactions import end
from tests.tools_table.world import World

CASES: Final = Cases()

PRODUCER, CONSUMER, SHARE = "kafka-console-producer", "kafka-console-consumer", "kafka-console-share-consumer"
VERIFIABLE_PRODUCER, VERIFIABLE_CONSUMER = "kafka-verifiable-producer", "kafka-verifiable-consumer"
VERIFIABLE_SHARE = "kafka-verifiable-share-consumer"
PRODUCER_PERF, CONSUMER_PERF = "kafka-producer-perf-test", "kafka-consumer-perf-test"
SHARE_PERF, LATENCY = "kafka-share-consumer-perf-test", "kafka-e2e-latency"
REPLICAS, DUMP = "kafka-replica-verification", "kafka-dump-log"

NUMBERS: Final = ((r"\d+(?:\.\d+)?", "N"),)
ALL: Final = ("print.key=true", "print.offset=true", "print.partition=true", "print.headers=true")
FORMATTERS: Final = "org.apache.kafka.tools.consumer"


def options(name: str, values: tuple[str, ...]) -> list[str]:
    return [one for value in values for one in (name, value)]


def consumed(world: World, topic: str, count: int) -> None:
    """What is there now, with all of it."""
    how = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "15000")
    world.run("--topic", topic, *how, *options("--formatter-property", ALL), tool=CONSUMER)


# -- kafka-console-producer --------------------------------------------------------------------------------------------


@CASES.of(PRODUCER, "produce")
def produce(world: World) -> None:
    topic = world.wire.topic()
    settings = world.file("producer", "client.id=table\nlinger.ms=1\n")
    reader = world.file("reader", "parse.key=true\nkey.separator=:\n")
    keyed = ("--reader-property", "parse.key=true", "--reader-property", "key.separator=:")
    runs: Iterator[tuple[tuple[str, ...], str]] = iter(
        (
            ((), "one\ntwo\n"),
            (keyed, "k:v\nk2:v:2\n"),
            ((*keyed, "--reader-property", "null.marker=NULL"), "NULL:NULL\n"),
            ((*keyed, "--reader-property", "parse.headers=true"), "h:1,i:2\tk:v\n"),
            (("--property", "parse.key=true", "--property", "key.separator=:"), "p:q\n"),
            (("--reader-config", reader), "r:s\n"),
            (("--line-reader", "org.apache.kafka.tools.LineMessageReader"), "line\n"),
            (("--sync",), "sync\n"),
            (("--compression-codec", "zstd"), "zstd\n"),
            (("--compression-codec",), "gzip\n"),
            (("--compression-codec", "rar"), "no\n"),
            (("--batch-size", "100", "--timeout", "10"), "batch\n"),
            (("--request-required-acks", "0"), "acks\n"),
            (("--request-required-acks", "1", "--request-timeout-ms", "5000"), "acks1\n"),
            (("--message-send-max-retries", "1", "--retry-backoff-ms", "10"), "retries\n"),
            (("--max-block-ms", "20000", "--max-memory-bytes", "1000000"), "block\n"),
            (("--max-partition-memory-bytes", "1000", "--metadata-expiry-ms", "10000"), "memory\n"),
            (("--socket-buffer-size", "10000"), "socket\n"),
            (("--command-property", "acks=all"), "property\n"),
            (("--producer-property", "acks=all"), "old property\n"),
            (("--command-config", settings), "config\n"),
            (("--producer.config", settings), "old config\n"),
            ((), ""),
        )
    )
    for arguments, given in runs:
        world.run("--topic", topic, *arguments, stdin=given)
    world.run("--topic", topic, *keyed, stdin="no separator\n")
    world.run("--topic", topic, *keyed, "--reader-property", "ignore.error=true", stdin="no separator\n")
    consumed(world, topic, 24)


@CASES.of(PRODUCER, "what cannot be produced")
def not_produced(world: World) -> None:
    world.run("--topic", "no/slash", stdin="v\n")
    small = world.name("small")
    world.do("kafka-topics", "--create", "--topic", small, "--config", "max.message.bytes=200")
    world.run("--topic", small, stdin="x" * 1000 + "\n")
    compacted = world.name("compacted")
    world.do("kafka-topics", "--create", "--topic", compacted, "--config", "cleanup.policy=compact")
    world.run("--topic", compacted, stdin="no key\n")
    world.run("--topic", small, "--command-property", "acks=3", stdin="v\n")
    world.run("--topic", small, "--request-required-acks", "x", stdin="v\n")
    world.run(stdin="v\n")
    world.run("--topic", small, bootstrap=False, stdin="v\n")
    created = world.name("created")
    world.run("--topic", created, stdin="v\n")
    consumed(world, created, 1)


# -- kafka-console-consumer --------------------------------------------------------------------------------------------


def records(world: World) -> str:
    topic = world.wire.topic(partitions=2)
    for partition in range(2):
        for index in range(3):
            world.wire.produce(topic, [f"{partition}-{index}".encode()], partition)
    return topic


@CASES.of(CONSUMER, "consume")
def consume(world: World) -> None:
    topic = records(world)
    given = world.name("keyed")
    world.do("kafka-topics", "--create", "--topic", given)
    world.do(
        PRODUCER, "--topic", given, *options("--reader-property", ("parse.key=true", "key.separator=:", "parse.headers=true")),
        stdin="h:1,i:2\tk:v\nx:y\tNULL:w\n",
    )  # fmt: skip
    one = ("--topic", topic, "--partition", "0", "--timeout-ms", "15000")
    some = (
        "--topic",
        given,
        "--partition",
        "0",
        "--offset",
        "earliest",
        "--max-messages",
        "2",
        "--timeout-ms",
        "15000",
    )
    settings = world.file("consumer", "client.id=table\nauto.offset.reset=earliest\n")
    lines = world.file("formatter", "print.key=true\nkey.separator=--\n")
    for arguments in (
        (*one, "--offset", "earliest", "--max-messages", "3"),
        (*one, "--offset", "1", "--max-messages", "2"),
        (*one, "--offset", "99", "--max-messages", "1"),
        (*one, "--offset", "earliest", "--max-messages", "3", "--isolation-level", "read_committed"),
        (*one, "--offset", "earliest", "--max-messages", "3", "--isolation-level", "read_uncommitted"),
        (*one, "--offset", "earliest", "--max-messages", "3", "--isolation-level", "read_some"),
        (*one, "--offset", "-3"),
        (*one, "--offset", "soon"),
        (*some, *options("--formatter-property", ALL)),
        (*some, *options("--property", (*ALL, "key.separator=|", "line.separator=;\n"))),
        (*some, *options("--formatter-property", ("print.timestamp=true", "print.delivery=true", "print.epoch=true"))),
        (*some, *options("--formatter-property", ("print.key=true", "null.literal=NIL", "headers.separator=/"))),
        (*some, "--formatter-property", "print.value=false", "--formatter-property", "print.key=true"),
        (*some, "--formatter-config", lines),
        (*some, "--formatter", f"{FORMATTERS}.LoggingMessageFormatter"),
        (*some, "--formatter", f"{FORMATTERS}.NoOpMessageFormatter"),
        (*some, "--formatter", "no.such.Formatter"),
        (*some, "--key-deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
        (*some, "--value-deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer"),
        (*some, "--value-deserializer", "org.apache.kafka.common.serialization.LongDeserializer"),
        (
            *some,
            "--value-deserializer",
            "org.apache.kafka.common.serialization.LongDeserializer",
            "--skip-message-on-error",
        ),
        (*some, "--enable-systest-events"),
        (*some, "--command-property", "client.id=table"),
        (*some, "--consumer-property", "client.id=table"),
        (*some, "--command-config", settings),
        (*some, "--consumer.config", settings),
    ):
        world.run(*arguments)
    world.run("--topic", topic, "--from-beginning", "--max-messages", "6", "--timeout-ms", "15000", is_unordered=True)
    world.run(
        "--include",
        world.name("t.*"),
        "--from-beginning",
        "--max-messages",
        "6",
        "--timeout-ms",
        "15000",
        is_unordered=True,
    )
    grouped = ("--topic", topic, "--group", world.name("g"), "--timeout-ms", "15000")
    world.run(*grouped, "--from-beginning", "--max-messages", "6", is_unordered=True)
    world.run(*grouped, "--from-beginning", "--max-messages", "1", "--timeout-ms", "3000")
    protocol = ("--command-property", "group.protocol=consumer", "--group", world.name("newer"))
    world.run(
        "--topic",
        topic,
        "--from-beginning",
        "--max-messages",
        "6",
        "--timeout-ms",
        "15000",
        *protocol,
        is_unordered=True,
    )
    world.run("--topic", "none", "--partition", "0", "--timeout-ms", "2000")
    world.run("--topic", "no/slash", "--timeout-ms", "2000")
    world.run("--topic", topic, "--partition", "9", "--timeout-ms", "2000")
    world.run("--topic", topic, "--from-beginning", "--offset", "1", "--partition", "0")
    world.run("--topic", topic, "--include", topic)
    world.run("--topic", topic, "--group", "g", "--partition", "0")
    world.run()
    world.run("--topic", topic, bootstrap=False)


@CASES.of(CONSUMER, "transactions")
def transactions(world: World) -> None:
    topic = world.wire.topic()
    world.wire.produce(topic, [b"before"])
    world.wire.transaction(world.name("id"), topic)
    world.wire.produce(topic, [b"behind"])
    one = ("--topic", topic, "--partition", "0", "--offset", "earliest", "--timeout-ms", "3000")
    world.run(*one, "--isolation-level", "read_committed")
    world.run(*one, "--isolation-level", "read_uncommitted")


@CASES.of(CONSUMER, "internal topics")
def internal(world: World) -> None:
    topic = records(world)
    world.wire.commit(world.name("g"), topic, 2)
    for name, formatter in (
        ("__consumer_offsets", "OffsetsMessageFormatter"),
        ("__consumer_offsets", "GroupMetadataMessageFormatter"),
        ("__transaction_state", "TransactionLogMessageFormatter"),
    ):
        world.run(
            "--topic",
            name,
            "--from-beginning",
            "--formatter",
            f"{FORMATTERS}.{formatter}",
            "--timeout-ms",
            "3000",
            only=f"{world.name('g')}|stderr",
            is_unordered=True,
            patterns=(("a total of \\d+", "a total of N"),),
        )


@CASES.of(SHARE, "consume as a share group")
def share(world: World) -> None:
    topic = records(world)
    settings = world.file("consumer", "client.id=table\n")
    of = ("--topic", topic, "--timeout-ms", "3000", "--max-messages", "1")
    for arguments in (
        (),
        ("--group", world.name("g")),
        ("--reject",),
        ("--release",),
        ("--reject-message-on-error",),
        ("--enable-systest-events",),
        ("--formatter", f"{FORMATTERS}.LoggingMessageFormatter"),
        ("--formatter-property", "print.key=true"),
        ("--property", "print.key=true"),
        ("--formatter-config", settings),
        ("--command-property", "client.id=table"),
        ("--consumer-property", "client.id=table"),
        ("--command-config", settings),
        ("--consumer-config", settings),
        ("--key-deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
        ("--value-deserializer", "org.apache.kafka.common.serialization.StringDeserializer"),
    ):
        world.run(*of, *arguments)


# -- verifiable clients ------------------------------------------------------------------------------------------------

SENT: Final = ((r'("avg_throughput":)[\d.]+', r"\1N"),)


@CASES.of(VERIFIABLE_PRODUCER, "produce")
def verifiable_producer(world: World) -> None:
    topic = world.wire.topic()
    settings = world.file("producer", "client.id=table\n")
    of = ("--topic", topic, "--max-messages", "3")
    for arguments in (
        (),
        ("--throughput", "1000"),
        ("--acks", "1"),
        ("--acks", "0"),
        ("--value-prefix", "7"),
        ("--repeating-keys", "2"),
        ("--message-create-time", "1000"),
        ("--command-config", settings),
        ("--producer.config", settings),
    ):
        world.run(*of, *arguments, patterns=SENT)
    world.run()


def group_of(world: World, number: int) -> tuple[str, str]:
    return ("--group", world.name(f"g{number}"))


@CASES.of(VERIFIABLE_CONSUMER, "consume")
def verifiable_consumer(world: World) -> None:
    topic = world.wire.topic()
    for index in range(5):
        world.wire.produce(topic, [str(index).encode()])
    settings = world.file("consumer", "client.id=table\n")
    for number, arguments in enumerate(
        (
            (),
            ("--verbose",),
            ("--enable-autocommit",),
            ("--reset-policy", "earliest"),
            ("--session-timeout", "20000"),
            ("--group-instance-id", "static"),
            ("--assignment-strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor"),
            ("--group-protocol", "consumer"),
            ("--group-protocol", "consumer", "--group-remote-assignor", "range"),
            ("--command-config", settings),
            ("--consumer.config", settings),
        )
    ):
        group = ("--group-id", group_of(world, number)[1])
        # How many records a poll returns is chance: the sums of all are not. So is whether a consumer knows the topic
        # when it hears its assignment: until then it is assigned nothing.
        world.run(
            "--topic",
            topic,
            *group,
            "--max-messages",
            "5",
            *arguments,
            only=r'^(?!.*(records_consumed|offsets_committed|partitions_assigned","partitions":\[\]))',
        )
        world.run("--describe", *group_of(world, number), tool="kafka-consumer-groups", only=topic)
    world.run("--topic", topic)


@CASES.of(VERIFIABLE_SHARE, "consume as a share group")
def verifiable_share(world: World) -> None:
    topic = records(world)
    settings = world.file("consumer", "client.id=table\n")
    runs: tuple[tuple[str, ...], ...] = (
        (),
        ("--verbose",),
        ("--acknowledgement-mode", "sync"),
        ("--offset-reset-strategy", "earliest"),
        ("--command-config", settings),
    )
    groups = [world.name(f"g{number}") for number in range(len(runs))]
    for group in groups:  # each has all records before it, so that the tool ends by itself
        earliest = ("--add-config", "share.auto.offset.reset=earliest")
        world.do("kafka-configs", "--alter", "--group", group, *earliest)
    for group, arguments in zip(groups, runs, strict=True):
        how = ("--max-messages", "1", *arguments)
        world.run("--topic", topic, "--group-id", group, *how, only="exit|stderr|startup")


# -- performance tests -------------------------------------------------------------------------------------------------


@CASES.of(PRODUCER_PERF, "shape")
def producer_perf(world: World) -> None:
    topic = world.wire.topic()
    settings = world.file("producer", "client.id=table\n")
    of = ("--topic", topic, "--num-records", "20", "--throughput", "-1")
    for arguments in (
        ("--record-size", "10"),
        ("--payload-monotonic",),
        ("--payload-file", world.file("payload", "a,b,c"), "--payload-delimiter", ","),
        ("--record-size", "10", "--producer-props", "acks=1"),
        ("--record-size", "10", "--command-property", "acks=1"),
        ("--record-size", "10", "--command-config", settings),
        ("--record-size", "10", "--producer.config", settings),
        ("--record-size", "10", "--transactional-id", world.name("id"), "--transaction-duration-ms", "100"),
        ("--record-size", "10", "--warmup-records", "5"),
        ("--record-size", "10", "--reporting-interval", "10000"),
    ):
        world.run(*of, *arguments, patterns=NUMBERS)
    world.run(*of, "--record-size", "10", "--print-metrics", only="stderr|Metric Name|records sent", patterns=NUMBERS)
    world.run(*of)


@CASES.of(CONSUMER_PERF, "shape")
def consumer_perf(world: World) -> None:
    topic = records(world)
    settings = world.file("consumer", "client.id=table\n")
    of = ("--topic", topic, "--timeout", "15000", "--group", world.name("g"))
    count = ("--num-records", "6")
    for number, arguments in enumerate(
        (
            count,
            ("--messages", "6"),
            (*count, "--hide-header"),
            (*count, "--show-detailed-stats", "--reporting-interval", "60000"),
            (*count, "--date-format", "yyyy"),
            (*count, "--fetch-size", "1000"),
            (*count, "--socket-buffer-size", "10000"),
            (*count, "--command-property", "client.id=table"),
            (*count, "--command-config", settings),
            (*count, "--consumer.config", settings),
        )
    ):
        world.run(*of[:-1], f"{of[-1]}{number}", *arguments, patterns=NUMBERS)
    world.run("--include", world.name("t.*"), *of[2:], *count, patterns=NUMBERS)
    world.run(*of[:3], "1000", *of[4:-1], world.name("late"), "--from-latest", *count, patterns=NUMBERS)
    world.run(*of[:-1], world.name("metrics"), *count, "--print-metrics", only="stderr|Metric Name|^start.time")
    world.run("--topic", topic)


@CASES.of(SHARE_PERF, "shape")
def share_perf(world: World) -> None:
    topic = records(world)
    world.run(
        "--topic", topic, "--num-records", "1", "--timeout", "1000", seconds=5, patterns=NUMBERS, only="exit|stderr"
    )


@CASES.of(LATENCY, "shape")
def latency(world: World) -> None:
    topic = world.wire.topic()
    shape = (*NUMBERS, (r"(?:N\t)+", "N "))
    world.run("--topic", topic, "--num-records", "3", "--producer-acks", "1", "--record-size", "10", patterns=shape)
    world.run()


# -- kafka-replica-verification ----------------------------------------------------------------------------------------


@CASES.of(REPLICAS, "replicas")
def replicas(world: World) -> None:
    topic = records(world)
    world.run(
        "--topics-include",
        topic,
        "--time",
        "-2",
        "--report-interval-ms",
        "500",
        "--max-wait-ms",
        "100",
        "--fetch-size",
        "100000",
        seconds=3,
    )
    world.run("--topics-include", "none")
    world.run(bootstrap=False)


# -- kafka-dump-log ----------------------------------------------------------------------------------------------------


FILES: Final = ((r"DATA/[^\s,]+\.log", "FILE"),)


def segments(world: World, content: bytes) -> str:
    """The server's log files with this in them, for --files."""
    found = sorted(str(path) for path in world.server.directory.rglob("*.log") if content in path.read_bytes())
    return ",".join(found)


@CASES.of(DUMP, "segments of a topic")
def dump(world: World) -> None:
    # The records are years older than the marker: Kafka would begin a segment for it, and delete the first one.
    topic = world.wire.topic(configs={"segment.ms": str(2**63 - 1), "retention.ms": "-1"})
    content = world.name("value").encode()
    world.wire.produce(topic, [content, b"two"])
    world.wire.produce(topic, [b"three"])
    producer = world.wire.transaction(world.name("id"), topic)
    end(world, world.name("id"), producer, is_commit=False)
    files = segments(world, content)
    numbered = (*FILES, (r"(producerId|crc|coordinatorEpoch): \d+", r"\1: N"))
    for arguments in (
        (),
        ("--deep-iteration",),
        ("--print-data-log",),
        ("--print-data-log", "--skip-record-metadata"),
        ("--max-bytes", "100"),
        ("--max-message-size", "10"),
        ("--verify-index-only",),
        ("--index-sanity-check",),
        ("--key-decoder-class", "org.apache.kafka.tools.api.StringDecoder"),
        ("--value-decoder-class", "org.apache.kafka.tools.api.StringDecoder"),
        ("--remote-log-metadata-decoder",),
        ("--share-group-state-decoder",),
    ):
        world.run(
            "--files",
            files,
            *arguments,
            bootstrap=False,
            patterns=numbered,
            # The first waits for the marker of the transaction's end.
            until=None if arguments else lambda ended: "isControl: true" in ended.out,
        )
    world.run("--files", world.path("none"), bootstrap=False)
    world.run(bootstrap=False)


@CASES.of(DUMP, "segments of internal topics")
def dump_internal(world: World) -> None:
    topic, group = world.wire.topic(), world.name("g")
    world.wire.commit(group, topic, 0)
    world.wire.transaction(world.name("id"), topic)
    for content, decoder in (
        (group, "--offsets-decoder"),
        (world.name("id"), "--transaction-log-decoder"),
        (topic, "--cluster-metadata-decoder"),
    ):
        files = segments(world, content.encode())
        # Other topics' metadata comes before, and other producers.
        numbered = (*FILES, (r"\boffset: \d+", "offset: N"), (r"([pP]roducerId\"):\d+", r"\1:N"))
        world.run("--files", files, decoder, bootstrap=False, patterns=numbered, only=f"exit|stderr|{content}")
