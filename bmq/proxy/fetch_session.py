"""Incremental fetch sessions (KIP-227): partitions that a consumer need not name in each request. Decisions only.

`SessionCache.resolve` finds the partitions of a request. `SessionCache.answer` selects the results that the client has to get,
and opens a session for a full fetch. The caller passes time and session ids. Sessions are evicted as in Kafka: first one that was
not used for the eviction time; else, among sessions older than that time, the one with the fewest partitions, if it has fewer
than the new one. Source: KIP-227, Kafka's FetchSession.scala.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from bmq.dataclass import dataclass
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.hot_fetch import FetchResult
from bmq.protocol.messages.fetch_request import FetchRequest
from bmq.protocol.topic_names import NAME_LENGTH_MAX
from bmq.views.batch_filter import EmptyRun

NO_SESSION_ID: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
SESSION_PARTITIONS_MAX: Final = 20_000
"""Most partitions of one session: each of its fetches looks at all of them, also if the request names none."""
_EPOCH_MAX: Final = 2**31 - 1
_TOPIC_IDS_FROM: Final = 13
_NO_WATERMARK: Final = -1

TopicKey = str | UUID | None
PartitionKey = tuple[TopicKey, int]


class Interest:
    """One partition of a request. In a session it persists, and has the values that the client was last sent."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "last_fetched_epoch",
        "max_bytes",
        "name",
        "partition",
        "passed",
        "seen_image",
        "sent_high_watermark",
        "sent_stable_offset",
        "sent_start_offset",
        "topic_id",
        "topic_name",
        "topic_partition",
        "view",
    )

    def __init__(self, name: str | None, topic_id: UUID | None, partition: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition = partition
        # Set by find_partition, by this metadata image. The topic's name is None while nobody knows its id.
        self.topic_name = name
        # For a view it is the partition of its base.
        self.topic_partition: TopicPartition | None = None
        self.view: TopicImage | None = None
        self.passed: EmptyRun | None = None  # offsets in which a view was found to have no records
        self.seen_image: object = None
        self.fetch_offset = 0
        self.max_bytes = 0
        self.current_leader_epoch = -1
        self.last_fetched_epoch = -1
        self.sent_high_watermark = _NO_WATERMARK
        self.sent_stable_offset = -1
        self.sent_start_offset = -1

    def find_partition(self, image: MetadataImage, *, is_by_id: bool) -> ErrorCode:
        """Set `topic_partition` by this image. Returns the error for the client if the image has no such partition."""
        if self.name is not None:
            topic = image.topics.get(self.name)
        else:
            topic = image.topics_by_id.get(self.topic_id)  # type: ignore[arg-type]
            self.topic_name = None if topic is None else topic.name
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC_ID if is_by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not 0 <= self.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic.view is None:
            self.topic_partition, self.view = TopicPartition(topic.topic_id, self.partition), None
        else:
            key = TopicPartition(topic.log_id, self.partition)
            if key != self.topic_partition or self.view is None or self.view.topic_id != topic.topic_id:
                self.passed = None
            self.topic_partition, self.view = key, topic
        self.seen_image = image
        return ErrorCode.NONE

    def must_send(self, result: FetchResult) -> bool:
        """Whether an incremental response has to have this result; if so, remembers it as sent."""
        is_news = bool(result[5]) or result[9] is not None or result[7] >= 0
        if result[2] != self.sent_high_watermark:
            self.sent_high_watermark = result[2]
            is_news = True
        if result[3] != self.sent_stable_offset:
            self.sent_stable_offset = result[3]
            is_news = True
        if result[4] != self.sent_start_offset:
            self.sent_start_offset = result[4]
            is_news = True
        if result[1]:
            # Errors are sent each time, and so is the first result after one.
            self.sent_high_watermark = _NO_WATERMARK
            is_news = True
        return is_news


class Session:
    """One consumer's session: its partitions, in the order in which fetches look at them."""

    __slots__ = ("created_ms", "epoch", "has_topic_ids", "interests", "session_id", "size", "used_ms")

    def __init__(
        self, session_id: int, has_topic_ids: bool, interests: dict[PartitionKey, Interest], now_ms: int
    ) -> None:
        self.session_id = session_id
        self.has_topic_ids = has_topic_ids
        self.interests = interests
        self.size = len(interests)  # partitions as counted by the cache
        self.epoch = 1  # the epoch expected in the next request
        self.created_ms = now_ms
        self.used_ms = now_ms


@dataclass(slots=True)
class FetchScope:
    """The partitions of one request, and how to answer it. With an `error_code` it has no partitions."""

    interests: Sequence[Interest]
    error_code: int = ErrorCode.NONE
    session: Session | None = None  # the session of an incremental fetch
    epoch: int = FINAL_EPOCH  # that session's epoch while this request runs
    is_opening: bool = False  # whether it is a full fetch that asks for a session
    has_topic_ids: bool = False


class SessionCache:
    """All sessions of this proxy. `new_id()` draws a session id from 1 to 2**31 - 1."""

    def __init__(self, *, slots_max: int, partitions_max: int, eviction_ms: int, new_id: Callable[[], int]) -> None:
        self.slots_max = slots_max
        self.partitions_max = partitions_max
        self.eviction_ms = eviction_ms
        self.partition_count = 0
        self.evicted = 0
        self._new_id = new_id
        self._sessions: OrderedDict[int, Session] = OrderedDict()  # least recently used first

    def __len__(self) -> int:
        return len(self._sessions)

    def resolve(self, request: FetchRequest, version: int, now_ms: int) -> FetchScope:
        """The scope of a Fetch (4-18). `now_ms`: by a monotonic clock."""
        has_topic_ids = version >= _TOPIC_IDS_FROM
        epoch = request.session_epoch
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if request.session_id != NO_SESSION_ID:
                self._remove(self._sessions.get(request.session_id))
            interests: dict[PartitionKey, Interest] = {}
            _update(interests, request, has_topic_ids)
            return FetchScope(tuple(interests.values()), is_opening=epoch == INITIAL_EPOCH, has_topic_ids=has_topic_ids)
        session = self._sessions.get(request.session_id)
        if session is None:
            return FetchScope((), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchScope((), ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.has_topic_ids != has_topic_ids:
            return FetchScope((), ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if not has_topic_ids and any(len(topic.topic or "") > NAME_LENGTH_MAX for topic in request.topics):
            self._remove(session)  # no topic has such a name, and a session would keep it in memory
            return FetchScope((), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        _update(session.interests, request, has_topic_ids)
        for topic in request.forgotten_topics_data:
            key = topic.topic_id if has_topic_ids else topic.topic
            for partition in topic.partitions:
                session.interests.pop((key, partition), None)
        self._touch(session, now_ms)
        if not session.interests:
            self._remove(session)
            return FetchScope((), has_topic_ids=has_topic_ids)
        if self.partition_count > self.partitions_max or session.size > SESSION_PARTITIONS_MAX:
            # The client has to start again with a full fetch, which gets no session then.
            self._remove(session)
            return FetchScope((), ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        session.epoch = epoch + 1 if epoch < _EPOCH_MAX else 1
        return FetchScope(
            tuple(session.interests.values()), session=session, epoch=session.epoch, has_topic_ids=has_topic_ids
        )

    def answer(
        self, scope: FetchScope, results: Iterable[tuple[Interest, FetchResult]], now_ms: int
    ) -> tuple[int, int, list[tuple[Interest, FetchResult]]]:
        """(error code, session id, the results to send in order)."""
        session = scope.session
        if session is None:
            sent = list(results)
            return scope.error_code, self._open(scope, sent, now_ms) if scope.is_opening else NO_SESSION_ID, sent
        if session.epoch != scope.epoch:
            # The client has continued the session without waiting for this answer.
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION_ID, []
        sent = []
        interests = session.interests
        for pair in results:
            interest, result = pair
            if not interest.must_send(result):
                continue
            sent.append(pair)
            if result[5]:
                # A partition with records is looked at last next time, or one busy partition would starve the others.
                key = (interest.topic_id if session.has_topic_ids else interest.name, interest.partition)
                if interests.pop(key, None) is not None:
                    interests[key] = interest
        return ErrorCode.NONE, session.session_id, sent

    def throttled(self, scope: FetchScope) -> tuple[int, int]:
        """(error code, session id) of an answer that is empty because of a quota; no result counts as sent."""
        session = scope.session
        if session is None:
            return scope.error_code, NO_SESSION_ID
        if session.epoch != scope.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, NO_SESSION_ID
        return ErrorCode.NONE, session.session_id

    def _open(self, scope: FetchScope, sent: list[tuple[Interest, FetchResult]], now_ms: int) -> int:
        size = len(sent)
        if not 0 < size <= SESSION_PARTITIONS_MAX or self.partition_count + size > self.partitions_max:
            return NO_SESSION_ID
        if any(len(interest.name or "") > NAME_LENGTH_MAX for interest, _ in sent):
            return NO_SESSION_ID
        if not self._make_room(size, now_ms):
            return NO_SESSION_ID
        interests: dict[PartitionKey, Interest] = {}
        for interest, result in sent:
            interest.must_send(result)
            interests[(interest.topic_id if scope.has_topic_ids else interest.name, interest.partition)] = interest
        session_id = self._new_id()
        while session_id in self._sessions or session_id <= NO_SESSION_ID:
            session_id = self._new_id()
        self._sessions[session_id] = Session(session_id, scope.has_topic_ids, interests, now_ms)
        self.partition_count += size
        return session_id

    def _make_room(self, size: int, now_ms: int) -> bool:
        sessions = self._sessions
        if len(sessions) < self.slots_max:
            return True
        if not sessions:
            return False
        victim = next(iter(sessions.values()))
        if now_ms - victim.used_ms <= self.eviction_ms:
            old = [session for session in sessions.values() if session.used_ms - session.created_ms > self.eviction_ms]
            if not old:
                return False
            victim = min(old, key=lambda session: (session.size, session.session_id))
            if victim.size >= size:
                return False
        self._remove(victim)
        self.evicted += 1
        return True

    def _touch(self, session: Session, now_ms: int) -> None:
        session.used_ms = now_ms
        self._sessions.move_to_end(session.session_id)
        self.partition_count += len(session.interests) - session.size
        session.size = len(session.interests)

    def _remove(self, session: Session | None) -> None:
        if session is not None and self._sessions.pop(session.session_id, None) is not None:
            self.partition_count -= session.size


def _update(interests: dict[PartitionKey, Interest], request: FetchRequest, has_topic_ids: bool) -> None:
    for topic in request.topics:
        topic_id = topic.topic_id if has_topic_ids else None
        name = None if has_topic_ids else topic.topic
        for wanted in topic.partitions:
            key = (topic_id if has_topic_ids else name, wanted.partition)
            interest = interests.get(key)
            if interest is None:
                interest = interests[key] = Interest(name, topic_id, wanted.partition)
            interest.fetch_offset = wanted.fetch_offset
            interest.max_bytes = wanted.partition_max_bytes
            interest.current_leader_epoch = wanted.current_leader_epoch
            interest.last_fetched_epoch = wanted.last_fetched_epoch
