"""Topics deleted and made again while they are in use: Kafka's codes, nothing hangs, and no record of the old one in the new.

Other topics are served meanwhile, and at the end there is no file of a deleted topic.
"""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.record_batch import batches, verify_crc
from testing import wire
from testing.compaction import topic_ids
from testing.processes import eventually
from testing.servers import BmqServer, Server
from testing.wire import FetchAnswer, ProduceAnswer, WireClient
from tests.e2e.conftest import SERVER_KIND, assert_no_traceback, create_topic, make_server, unique_name
from tests.support.topic_client import TopicClient

pytestmark = [pytest.mark.clients, pytest.mark.timeout(240)]

NOT_LEADER_OR_FOLLOWER, TOPIC_ALREADY_EXISTS, UNKNOWN_TOPIC_ID = 6, 36, 100
GONE = {wire.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID}
CLOSED = NOT_LEADER_OR_FOLLOWER
"""Of a partition that is closed already while its topic is still known."""
WAIT_S = 60.0
LONG_WAIT_MS = 59_000
"""Both servers would let a fetch wait for so long. Clients here wait less for an answer, so that a deletion has to end it."""
ANSWER_WAIT_S = 40.0
COMPACTED_WAIT_S = 180.0
"""A process that cleans runs when nobody else wants to; one that gets nothing for a minute is followed by one that takes part."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp("deleting") / "data"
    is_bmq = SERVER_KIND == "bmq"
    environment = {"BMQ_BROKER__COMPACTION_CHECK_INTERVAL_MS": "200"}
    server = BmqServer(directory, environment) if is_bmq else make_server(directory)
    server.start()
    try:
        yield server
        assert server.is_running
        if isinstance(server, BmqServer):
            require_no_files_of_deleted_topics(server)
    finally:
        server.close()
    assert_no_traceback(server)


def require_no_files_of_deleted_topics(server: BmqServer) -> None:
    """Files are looked for twice, some seconds apart."""

    def is_done() -> bool:
        found = re.search(r"^bmq_topic_deletions_pending (\S+)", server.get("/metrics")[1], re.MULTILINE)
        return found is not None and float(found[1]) == 0

    eventually(is_done, WAIT_S, "all deletions are done")
    names = list(AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=20).topics)
    known = {str(topic_id) for topic_id in topic_ids(server.bootstrap, names).values()} if names else set()
    there = {
        path.name
        for path in server.directory.rglob("*")
        if re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", path.name)
    }
    hidden = {name for name in there if name.startswith("00000000-")}  # the metadata log
    assert there - hidden <= known, "files of topics that are gone"


class Activity:
    """Calls `step` again and again in a thread, while it is entered. An exception ends it, and fails the test."""

    def __init__(self, what: str, step: Callable[[], object]) -> None:
        self.steps = 0
        self._step = step
        self._error: BaseException | None = None
        self._finish = threading.Event()
        self._thread = threading.Thread(target=self._run, name=what)

    def __enter__(self) -> Activity:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._finish.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive(), f"{self._thread.name} hangs"
        self._require_well()

    def go_on(self, count: int) -> None:
        """Returns once it has done so many more."""
        target = self.steps + count
        eventually(
            lambda: self._error is not None or self.steps >= target, WAIT_S, f"{count} of {self._thread.name}", 0.01
        )
        self._require_well()

    def _require_well(self) -> None:
        if self._error is not None:
            raise AssertionError(f"{self._thread.name}: {self._error!r}") from self._error

    def _run(self) -> None:
        try:
            while not self._finish.is_set():
                self._step()
                self.steps += 1
        except BaseException as error:
            self._error = error


@pytest.fixture
def client(server: Server) -> Iterator[TopicClient]:
    with TopicClient(server.port, ANSWER_WAIT_S) as client:
        yield client


@pytest.fixture
def neighbour(server: Server) -> Iterator[Activity]:
    """Another client of another topic, that must notice nothing."""
    topic = made_topic(server)
    with WireClient(server.port, ANSWER_WAIT_S) as client:

        def round_trip() -> None:
            answer = client.produce(topic, wire.record_batch([b"kept"]))
            assert answer.error_code == wire.NONE, answer
            fetched = client.fetch(topic, answer.base_offset, max_wait_ms=1_000)
            assert fetched.error_code == wire.NONE and b"kept" in fetched.records, fetched

        with Activity("neighbour", round_trip) as activity:
            activity.go_on(1)
            yield activity
            activity.go_on(3)


def made_topic(server: Server, config: dict[str, str] | None = None) -> str:
    topic = unique_name("topic")
    create_topic(server, topic, config=config)
    wait_until_led(server, topic)
    return topic


def wait_until_led(server: Server, topic: str) -> None:
    """Apache Kafka tells of a new topic a moment before it leads its partitions."""
    with WireClient(server.port) as client:
        eventually(lambda: client.list_offsets(topic, [0], -1)[0][0] == wire.NONE, 20, "the topic is led", 0.01)


def numbered(number: int, *, who: int = 0, padding: int = 0) -> bytes:
    return bytes(encode_batch([Record(b"%d" % who, b"%d" % number + b"." * padding, timestamp_ms=wire.TIMESTAMP_MS)]))


def produce_next(
    client: WireClient, topic: str, who: int, answered: list[int], acknowledged: list[dict[int, int]], codes: set[int]
) -> int:
    """Send the next of this client's numbers and note what is answered: offsets by number; the number."""
    number = answered[who] + 1
    answer = client.produce(topic, numbered(number, who=who))
    codes.add(answer.error_code)
    if answer.error_code == wire.NONE:
        acknowledged[who][number] = answer.base_offset
    answered[who] = number
    return number


def records_in(data: bytes) -> list[Record]:
    """Of the whole batches in a fetch's answer, whose checksums are right; a last one may be cut off (Kafka does)."""
    found: list[Record] = []
    position = 0
    while len(data) - position >= 61:
        size = int.from_bytes(data[position + 8 : position + 12], "big") + 12
        if position + size > len(data):
            break
        ((_, header),) = batches(data[position : position + size])
        verify_crc(data, position, header)
        found += decode_records(data[position : position + size])
        position += size
    return found


def number_of(record: Record) -> int:
    assert record.value is not None
    return int(record.value.rstrip(b"."))


class Codes:
    """The codes that one user of a topic was answered, in order, each named once until another came."""

    def __init__(self, gone: int) -> None:
        self.seen: list[int] = []
        self.gone = gone

    def note(self, answer: ProduceAnswer | FetchAnswer) -> None:
        if self.seen[-1:] != [answer.error_code]:
            self.seen.append(answer.error_code)

    def require_gone_for_good(self) -> None:
        """Served, perhaps closed for a moment, and then unknown."""
        assert self.seen in ([wire.NONE, self.gone], [wire.NONE, CLOSED, self.gone]), self.seen


@pytest.mark.campaign("kills")
def test_a_topic_is_deleted_while_producers_produce_to_it(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    topic = made_topic(server)
    topic_id = topic_ids(server.bootstrap, [topic])[topic]
    codes = [Codes(wire.UNKNOWN_TOPIC_OR_PARTITION) for _ in range(3)] + [Codes(UNKNOWN_TOPIC_ID) for _ in range(2)]
    acknowledged: set[int] = set()
    with ExitStack() as stack:
        producers = []
        for who, noted in enumerate(codes):
            connection = stack.enter_context(TopicClient(server.port, ANSWER_WAIT_S))

            def produce(who: int = who, noted: Codes = noted, connection: TopicClient = connection) -> None:
                batch = numbered(who)
                if noted.gone == UNKNOWN_TOPIC_ID:
                    answer = connection.produce_by_id(topic_id, batch)
                else:
                    answer = connection.produce(topic, batch)
                noted.note(answer)
                if answer.error_code == wire.NONE:
                    assert answer.base_offset not in acknowledged, "an offset was given twice"
                    acknowledged.add(answer.base_offset)

            producers.append(stack.enter_context(Activity(f"producer {who}", produce)))
        for producer in producers:
            producer.go_on(20)
        assert client.delete(topic) == wire.NONE
        neighbour.go_on(3)
        for noted in codes:
            eventually(lambda noted=noted: noted.seen[-1] in GONE, WAIT_S, "the topic is unknown")  # type: ignore[misc]
        for producer in producers:
            producer.go_on(20)
    for noted in codes:
        noted.require_gone_for_good()
    assert sorted(acknowledged) == list(range(len(acknowledged)))
    assert client.list_offsets(topic, [0], -1)[0][0] == wire.UNKNOWN_TOPIC_OR_PARTITION
    assert client.delete(topic) == wire.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_is_deleted_while_fetches_wait_at_its_end(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    """Each is answered by the deletion, and not by its own time."""
    topic = made_topic(server)
    topic_id = topic_ids(server.bootstrap, [topic])[topic]
    assert client.produce(topic, numbered(0)).error_code == wire.NONE
    waits: list[tuple[str, int, Callable[[TopicClient], FetchAnswer]]] = [
        ("by name", wire.UNKNOWN_TOPIC_OR_PARTITION, lambda one: one.fetch(topic, 1, max_wait_ms=LONG_WAIT_MS)),
        ("by id", UNKNOWN_TOPIC_ID, lambda one: one.fetch_by_id(topic_id, 1, max_wait_ms=LONG_WAIT_MS)),
        (
            "in a session",
            UNKNOWN_TOPIC_ID,
            lambda one: one.fetch_by_id(topic_id, 1, max_wait_ms=LONG_WAIT_MS, session_epoch=0),
        ),
        (
            "for more bytes than there are",
            UNKNOWN_TOPIC_ID,
            lambda one: one.fetch_by_id(topic_id, 0, max_wait_ms=LONG_WAIT_MS, min_bytes=1 << 20),
        ),
    ]
    answers: dict[str, list[FetchAnswer]] = {what: [] for what, _, _ in waits}
    with ExitStack() as stack:
        fetchers = []
        for what, _, fetch in waits:
            connection = stack.enter_context(TopicClient(server.port, ANSWER_WAIT_S))
            assert connection.fetch(topic, 0).error_code == wire.NONE

            def fetch_until_gone(
                what: str = what,
                fetch: Callable[[TopicClient], FetchAnswer] = fetch,
                connection: TopicClient = connection,
            ) -> None:
                answers[what].append(fetch(connection))

            fetchers.append(stack.enter_context(Activity(what, fetch_until_gone)))
        neighbour.go_on(20)
        assert not any(fetcher.steps for fetcher in fetchers), answers
        assert client.delete(topic) == wire.NONE
        for fetcher in fetchers:
            fetcher.go_on(5)
    for what, gone, _ in waits:
        *before, last = answers[what]
        assert last.error_code == gone and not last.records, (what, answers[what])
        assert {one.error_code for one in before} <= {CLOSED, wire.UNKNOWN_TOPIC_OR_PARTITION, gone}, (what, before)


def test_a_topic_is_deleted_while_its_beginning_is_read(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    """Records are read whole and right until the topic is unknown."""
    topic = made_topic(server, {"segment.bytes": "1048576"})
    padding, count = 50_000, 80
    for number in range(count):
        assert client.produce(topic, numbered(number, padding=padding)).error_code == wire.NONE
    codes = [Codes(wire.UNKNOWN_TOPIC_OR_PARTITION) for _ in range(3)]
    with ExitStack() as stack:
        readers = []
        for who, noted in enumerate(codes):
            connection = stack.enter_context(TopicClient(server.port, ANSWER_WAIT_S))
            position = [who * 20]

            def read(
                noted: Codes = noted, connection: TopicClient = connection, position: list[int] = position
            ) -> None:
                answer = connection.fetch(topic, position[0], max_wait_ms=100)
                noted.note(answer)
                records = records_in(answer.records)
                assert [record.offset for record in records] == [number_of(record) for record in records]
                assert [record.offset for record in records] == list(range(position[0], position[0] + len(records)))
                assert all(record.value is not None and len(record.value) > padding for record in records)
                if answer.error_code == wire.NONE:
                    assert records, answer
                    position[0] = (position[0] + len(records)) % count

            readers.append(stack.enter_context(Activity(f"reader {who}", read)))
        for reader in readers:
            reader.go_on(10)
        assert client.delete(topic) == wire.NONE
        for noted in codes:
            eventually(lambda noted=noted: noted.seen[-1] in GONE, WAIT_S, "the topic is unknown")  # type: ignore[misc]
        for reader in readers:
            reader.go_on(10)
    for noted in codes:
        noted.require_gone_for_good()


def test_a_consumer_of_two_topics_goes_on_with_the_one_that_is_left(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    doomed, kept = made_topic(server), made_topic(server)
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": unique_name("group"),
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    consumer.subscribe([doomed, kept])
    numbers: dict[str, list[int]] = {doomed: [], kept: []}
    errors: set[int] = set()

    def polled() -> None:
        message: Message | None = consumer.poll(0.1)
        if message is None:
            return
        error = message.error()
        if error is not None:
            errors.add(error.code())
        else:
            numbers[message.topic()].append(int(message.value()))

    def has(topic: str, count: int) -> bool:
        polled()
        return len(numbers[topic]) == count

    for number in range(5):
        for topic in (doomed, kept):
            assert client.produce(topic, wire.record_batch([b"%d" % number])).error_code == wire.NONE
    eventually(lambda: has(doomed, 5) and has(kept, 5), WAIT_S, "both topics are read", 0)
    assert client.delete(doomed) == wire.NONE
    for number in range(5, 10):
        assert client.produce(kept, wire.record_batch([b"%d" % number])).error_code == wire.NONE
    eventually(lambda: has(kept, 10), WAIT_S, "the topic that is left is read", 0)
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    eventually(lambda: polled() or unknown in errors, WAIT_S, "the consumer hears that the other one is gone", 0)  # type: ignore[func-returns-value]
    consumer.close()
    assert numbers == {doomed: [*range(5)], kept: [*range(10)]}
    assert errors == {unknown}


@pytest.mark.campaign("kills")
@pytest.mark.bmq_only  # it looks at the process that cleans
@pytest.mark.timeout(600)
def test_a_topic_is_deleted_while_it_is_compacted(server: BmqServer, client: TopicClient) -> None:
    """The process that cleans stands still in the middle of its work while the files go that it reads.

    It runs when nobody else wants to, so nothing else is done here meanwhile.
    """
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.01",
        "segment.bytes": "1048576",
        "segment.ms": "500",
        "bmq.segment.idle.close.ms": "500",
        "file.delete.delay.ms": "1000",
    }
    written_bytes = 40 * 400_000

    def compacted() -> int:
        found = re.search(r"^bmq_compactions_total (\d+)", server.get("/metrics")[1], re.MULTILINE)
        return int(found[1]) if found else 0

    def write(topic: str) -> None:
        values = [Record(b"%d" % (number % 50), b"x" * 400, timestamp_ms=wire.TIMESTAMP_MS) for number in range(1_000)]
        batch = bytes(encode_batch(values))
        for _ in range(written_bytes // 400_000):
            assert client.produce(topic, batch).error_code == wire.NONE

    def workers() -> list[psutil.Process]:
        """The process that cleans; none while one ends and the next one begins."""
        found = []
        for child in psutil.Process(server.pid).children():
            with suppress(psutil.NoSuchProcess):
                if "bmq.server.compaction_worker" in " ".join(child.cmdline()):
                    found.append(child)
        return found if len(found) == 1 else []

    kept = made_topic(server, config)
    is_caught = False
    while not is_caught:
        # A process that has cleaned once reads nothing any more but records.
        before = compacted()
        write(kept)
        eventually(lambda: compacted() > before, COMPACTED_WAIT_S, "the process that cleans is there")  # noqa: B023
        doomed = made_topic(server, config)
        doomed_id = topic_ids(server.bootstrap, [doomed])[doomed]
        (worker,) = eventually(workers, WAIT_S, "there is a process that cleans")
        try:
            before, before_bytes = compacted(), worker.io_counters().read_chars
            write(doomed)
            eventually(
                lambda: worker.io_counters().read_chars > before_bytes + written_bytes // 20,  # noqa: B023
                COMPACTED_WAIT_S,
                "the topic is being read",
                0.0005,
            )
            worker.send_signal(signal.SIGSTOP)
        except psutil.NoSuchProcess:  # it got no processor: the server has ended it, and begins another one
            assert client.delete(doomed) == wire.NONE
            continue
        try:
            is_caught = compacted() == before
            assert client.delete(doomed) == wire.NONE
            directories = list(server.directory.rglob(str(doomed_id)))
            assert directories
            eventually(lambda: not any(path.exists() for path in directories), WAIT_S, "the files are gone")  # noqa: B023
        finally:
            with suppress(psutil.NoSuchProcess):  # the server ends a process whose work is not wanted any more
                worker.send_signal(signal.SIGCONT)
    write(kept)
    eventually(lambda: compacted() > before, COMPACTED_WAIT_S, "others are compacted")
    assert not any(path.exists() for path in directories)
    assert client.produce(doomed, numbered(0)).error_code == wire.UNKNOWN_TOPIC_OR_PARTITION
    assert client.delete(kept) == wire.NONE


@pytest.mark.campaign("kills")
def test_topics_are_made_and_deleted_at_once(server: Server, client: TopicClient, neighbour: Activity) -> None:
    """Two requests on two connections: each is answered as if one had come before the other."""
    topics = [unique_name("both") for _ in range(40)]
    orders = set()
    with TopicClient(server.port, ANSWER_WAIT_S) as other:
        for topic in topics:
            creating, deleting = client.send_create(topic), other.send_delete(topic)
            answer = client.created(creating)[topic], other.deleted(deleting)[topic]
            assert answer in ((wire.NONE, wire.NONE), (wire.NONE, wire.UNKNOWN_TOPIC_OR_PARTITION)), answer
            orders.add(answer)
            is_there = answer[1] != wire.NONE
            # What was answered is what is so, for whoever asks afterwards.
            assert client.create(topic) == (TOPIC_ALREADY_EXISTS if is_there else wire.NONE)
            assert other.delete(topic) == wire.NONE
            assert client.delete(topic) == wire.UNKNOWN_TOPIC_OR_PARTITION
    names = AdminClient({"bootstrap.servers": server.bootstrap}).list_topics(timeout=20).topics
    assert not set(topics) & set(names)


def test_a_topic_is_deleted_while_its_first_records_come(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    """The partition is being started then, and whoever starts it makes its directory."""
    codes: set[int] = set()
    with WireClient(server.port, ANSWER_WAIT_S) as producer, WireClient(server.port, ANSWER_WAIT_S) as reader:
        for _ in range(40):
            topic = unique_name("first")
            assert client.create(topic) == wire.NONE
            producing = producer.send(wire.PRODUCE, 3, wire.produce_body(topic, 0, numbered(0)))
            reading = reader.send(wire.FETCH, 4, wire.fetch_body(topic, 0, 0, LONG_WAIT_MS))
            assert client.delete(topic) == wire.NONE
            codes.add(wire.produce_answer(producer.receive(producing)).error_code)
            codes.add(wire.fetch_answer(reader.receive(reading)).error_code)
            eventually(lambda: producer.produce(topic, numbered(0)).error_code in GONE, WAIT_S, "it is gone", 0.01)  # noqa: B023
    assert codes <= {wire.NONE, wire.UNKNOWN_TOPIC_OR_PARTITION, CLOSED}, codes


def test_many_requests_about_one_topic_are_in_flight_at_once(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    """Deletions and creations in turns, none waited for: on one connection they are carried out in their order."""
    topic = unique_name("turns")
    sent = [(client.send_create(topic), client.send_delete(topic), client.send_delete(topic)) for _ in range(30)]
    for creating, deleting, again in sent:
        assert client.created(creating) == {topic: wire.NONE}
        assert client.deleted(deleting) == {topic: wire.NONE}
        assert client.deleted(again) == {topic: wire.UNKNOWN_TOPIC_OR_PARTITION}


def test_a_topic_made_again_has_nothing_of_the_old_one(
    server: Server, client: TopicClient, neighbour: Activity
) -> None:
    """Producers and readers go on by name. `floors`: what each producer was answered before the present topic was made."""
    topic = unique_name("again")
    producers_count, rounds = 3, 8
    assert client.create(topic) == wire.NONE
    wait_until_led(server, topic)
    ids = [topic_ids(server.bootstrap, [topic])[topic]]
    answered = [0] * producers_count
    floors = [0] * producers_count
    acknowledged: list[dict[int, int]] = [{} for _ in range(producers_count)]  # offsets by number
    codes: set[int] = set()

    def require_new(records: list[Record], known: list[int]) -> None:
        for record in records:
            assert record.key is not None
            assert number_of(record) > known[int(record.key)], "a record of a topic that is gone"

    with ExitStack() as stack:
        activities = []
        for who in range(producers_count):
            connection = stack.enter_context(WireClient(server.port, ANSWER_WAIT_S))

            def produce(who: int = who, connection: WireClient = connection) -> None:
                produce_next(connection, topic, who, answered, acknowledged, codes)

            activities.append(stack.enter_context(Activity(f"producer {who}", produce)))
        for who in range(2):
            connection = stack.enter_context(WireClient(server.port, ANSWER_WAIT_S))
            position = [0]

            def read(connection: WireClient = connection, position: list[int] = position) -> None:
                known = list(floors)
                answer = connection.fetch(topic, position[0], max_wait_ms=50)
                if answer.error_code == wire.NONE:
                    records = records_in(answer.records)
                    require_new(records, known)
                    position[0] += len(records)
                else:
                    codes.add(answer.error_code)
                    position[0] = 0

            activities.append(stack.enter_context(Activity(f"reader {who}", read)))
        for _ in range(rounds):
            count = sum(map(len, acknowledged))
            eventually(lambda: sum(map(len, acknowledged)) >= count + 50, WAIT_S, "records are acknowledged", 0.01)  # noqa: B023
            assert client.delete(topic) == wire.NONE
            before = list(answered)
            assert client.create(topic) == wire.NONE
            floors[:] = before
            neighbour.go_on(1)
        count = sum(map(len, acknowledged))
        eventually(lambda: sum(map(len, acknowledged)) >= count + 50, WAIT_S, "the last one takes records", 0.01)
    assert codes <= {wire.NONE, wire.UNKNOWN_TOPIC_OR_PARTITION, CLOSED, wire.OFFSET_OUT_OF_RANGE}, codes
    found: list[Record] = []
    end = client.list_offsets(topic, [0], -1)[0][1]
    while len(found) < end:
        answer = client.fetch(topic, len(found))
        assert answer.error_code == wire.NONE
        found += records_in(answer.records)
    assert [record.offset for record in found] == list(range(end))
    require_new(found, floors)
    there = {(int(record.key or b""), number_of(record)): record.offset for record in found}
    for who, numbers in enumerate(acknowledged):
        for number, offset in numbers.items():
            # The one that was on its way meanwhile may have been written to the old one.
            if number > floors[who] + 1:
                assert there[who, number] == offset
    assert client.produce_by_id(ids[0], numbered(0)).error_code == UNKNOWN_TOPIC_ID
    assert client.fetch_by_id(ids[0], 0).error_code == UNKNOWN_TOPIC_ID
    assert client.delete(topic) == wire.NONE


@pytest.mark.parametrize("is_idempotent", [False, True])
def test_a_stock_producer_goes_on_through_topics_of_one_name(
    server: Server, client: TopicClient, neighbour: Activity, is_idempotent: bool
) -> None:
    """librdkafka may make the topic itself: its metadata requests allow that."""
    topic = made_topic(server)
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "enable.idempotence": is_idempotent,
            "linger.ms": 1,
            "message.timeout.ms": 60_000,
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    offsets: dict[int, int] = {}
    failed: dict[int, int] = {}
    sent = 0

    def on_delivery(number: int) -> Callable[[KafkaError | None, Message], None]:
        def note(error: KafkaError | None, message: Message) -> None:
            if error is None:
                offsets[number] = message.offset()
            else:
                failed[number] = error.code()

        return note

    def send(count: int) -> None:
        nonlocal sent
        for _ in range(count):
            producer.produce(topic, b"%d" % sent, on_delivery=on_delivery(sent))
            sent += 1
            producer.poll(0.001)

    first = 0
    for _ in range(4):
        send(200)
        eventually(lambda: producer.poll(0.01) or len(offsets) > 0, WAIT_S, "deliveries")
        assert client.delete(topic) == wire.NONE
        first = len(offsets) + len(failed)  # answered before the next topic was made
        assert client.create(topic) in (wire.NONE, TOPIC_ALREADY_EXISTS)
    send(200)
    assert producer.flush(2 * WAIT_S) == 0
    assert len(offsets) + len(failed) == sent
    assert set(failed.values()) <= {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC}, failed
    numbers: list[int] = []
    end = client.list_offsets(topic, [0], -1)[0][1]
    while len(numbers) < end:
        answer = client.fetch(topic, len(numbers))
        assert answer.error_code == wire.NONE
        numbers += [number_of(record) for record in records_in(answer.records)]
    assert len(numbers) == end and len(set(numbers)) == end
    assert min(numbers) >= first
    assert sent - 1 in numbers
    assert client.delete(topic) == wire.NONE


def test_stock_clients_get_partial_answers(server: Server, neighbour: Activity) -> None:
    good, other, missing = unique_name("good"), unique_name("other"), unique_name("missing")
    admin = AdminClient({"bootstrap.servers": server.bootstrap})

    def outcomes(futures: dict[str, object]) -> dict[str, int]:
        found = {}
        for name, future in futures.items():
            try:
                future.result(20)  # type: ignore[attr-defined]
                found[name] = 0
            except KafkaException as error:
                found[name] = error.args[0].code()
        return found

    making = [NewTopic(name, 1, 1) for name in (good, "no spaces", other)]
    assert outcomes(admin.create_topics(making)) == {good: 0, "no spaces": KafkaError.TOPIC_EXCEPTION, other: 0}
    making = [NewTopic(name, 1, 1) for name in (good, missing)]
    assert outcomes(admin.create_topics(making)) == {good: KafkaError.TOPIC_ALREADY_EXISTS, missing: 0}
    assert outcomes(admin.delete_topics([missing])) == {missing: 0}
    for topic in (good, other):
        wait_until_led(server, topic)
    consumer = Consumer({"bootstrap.servers": server.bootstrap, "group.id": unique_name("group")})
    consumer.assign([TopicPartition(topic, number, 0) for topic in (missing, good, other) for number in (0, 7)])
    with WireClient(server.port) as client:
        for topic in (good, other):
            assert client.produce(topic, wire.record_batch([topic.encode()])).error_code == wire.NONE
    values: set[bytes] = set()

    def is_complete() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is None:
            values.add(message.value())
        return values == {good.encode(), other.encode()}

    eventually(is_complete, WAIT_S, "the records of those that are there", 0)
    consumer.close()
    deleting = admin.delete_topics([good, missing, other])
    assert outcomes(deleting) == {good: 0, missing: KafkaError.UNKNOWN_TOPIC_OR_PART, other: 0}
