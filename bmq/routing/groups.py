"""All groups of the cluster as one proxy serves them: each request goes to the node that owns the group's shard.

A group's shard is a partition of the offsets topic, and its coordinator lives in the process that owns that partition.
While a shard moves, requests are retried here instead of by the client, for a bounded time from the first failure on
(group_requests.py says which may be repeated). After that the client gets the usual coordinator error.

Except for JoinGroup and SyncGroup, no request is sent later than `request_age_max_ms` after it was received: a client
that gave up on a commit may have committed a newer offset over another connection, which the old one would undo.

Clients are sent to the owner's node when that has a proxy, and to the proxy that stands in for it otherwise, so that most
requests need no second hop; any proxy serves any group.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from bmq.aio.backoff import Backoff
from bmq.coordinator.coordinator import GroupCoordinator
from bmq.coordinator.directory import shard_of
from bmq.log.partition_log import TopicPartition
from bmq.membership.image_waits import ImageWaits
from bmq.metadata.image import NO_LEADER, OFFSETS_TOPIC_NAME, MetadataImage, Node, TopicImage
from bmq.peers.envelope import forward
from bmq.peers.link import LinkLost
from bmq.peers.links import Links
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.messages.list_groups_request import ListGroupsRequest
from bmq.protocol.messages.list_groups_response import ListedGroup, ListGroupsResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.live_proxies import proxies_of
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.topic_views import client_leader, home_proxy
from bmq.routing.group_requests import MOVING, Commit, GroupRequest, TransactionalCommit, group_request

REBALANCE_PURPOSE: Final = "rebalance"
_NO_OWNER: Final = NO_LEADER
_GROUPS_PER_TURN_MAX: Final = 10  # looked up before others have their turn: a long name takes milliseconds


@dataclass(frozen=True, slots=True)
class RoutedGroupsConfig:
    """How long a shard on the move is waited for."""

    move_wait_ms: int = 5_000
    """From the first failed try on; then the client hears of it."""
    topic_wait_ms: int = 1_000
    """Without an offsets topic in this node's image: clients come when another proxy has just made it."""
    answer_wait_ms: int = 8_000
    """For an owner's answer; longer than a coordinator lets its clients wait for a shard that loads."""
    rebalance_wait_max_ms: int = 30 * 60 * 1000
    """For the answer to a JoinGroup or SyncGroup, which wait for other members."""
    members_waiting_max: int = 8_000
    """JoinGroups and SyncGroups under way to one owner; below what its listener takes in from one connection."""
    request_age_max_ms: int = 10_000
    """A request is not sent, or carried out here, so long after it was received. Far below clients' patience (30 s in Java,
    60 s in librdkafka), since it may have waited unread before (`loop_stall_max_ms`) and may wait so at the owner again."""
    retry_min_ms: int = 10
    retry_max_ms: int = 250


class TopicMaker(Protocol):
    """What is needed of the controller."""

    async def auto_create_topic(self, name: str) -> None: ...


class RoutedGroups:
    """Implements bmq.proxy.services.Groups. `local`: the coordinator of the shards this process owns, if it has one."""

    def __init__(
        self,
        node_id: int,
        local: GroupCoordinator | None,
        links: Links,
        image: Callable[[], MetadataImage],
        controller: TopicMaker,
        config: RoutedGroupsConfig,
        *,
        random: Random | None = None,
        stalls: StallWatch | None = None,
    ) -> None:
        self._node_id = node_id
        self._local = local
        self._links = links
        self._image = image
        self._controller = controller
        self._config = config
        self._random = random or Random(node_id)
        self._stalls = stalls or StallWatch()
        self._loop = asyncio.get_running_loop()
        self._waits = ImageWaits(image)
        self._turns: dict[tuple[str, str], _Turn] = {}
        self._waiting: Counter[int] = Counter()  # by owner

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """To be called after each new image of this node: who waits looks again, and shards that moved are given up."""
        before, topic = old.topics.get(OFFSETS_TOPIC_NAME), new.topics.get(OFFSETS_TOPIC_NAME)
        if self._local is not None and topic is not before:
            for number, shard in tuple(self._local.directory.ready.items()):
                if not self._is_ours(topic, number, shard.state_log.log.leader_epoch):
                    self._local.resign(number)
        self._waits.changed()

    def changed(self) -> None:
        """To be called when this process was given partitions: who waits for a shard looks again."""
        self._waits.changed()

    def _is_ours(self, topic: TopicImage | None, number: int, leader_epoch: int) -> bool:
        partition = None if topic is None else topic.partition(number)
        return partition is not None and partition.leader == self._node_id and partition.leader_epoch == leader_epoch

    # ---------------------------------------------------------------- where a group is

    async def prepare(self, group_id: str) -> Node | None:
        """The node clients find the group at, once the shard has a live owner; the offsets topic is made if need be.

        A shard of this process is loaded too. None: this node. Raises KafkaError COORDINATOR_NOT_AVAILABLE,
        COORDINATOR_LOAD_IN_PROGRESS, or the reason why there is no offsets topic.
        """
        if OFFSETS_TOPIC_NAME not in self._image().topics:
            try:
                await self._controller.auto_create_topic(OFFSETS_TOPIC_NAME)
            except BmqError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        patience = self._patience()
        while True:
            owner = self._owner(group_id)
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if owner == self._node_id and self._local is not None:
                try:
                    await self._local.prepare(group_id)
                    return self._client_node(group_id)
                except KafkaError as error:
                    if error.code not in MOVING:
                        raise
                    code = error.code
            elif owner != _NO_OWNER:
                return self._client_node(group_id)
            if not await patience.may_try_again(self._config.move_wait_ms):
                raise KafkaError(code, f"the shard of group {group_id} has no owner that serves it")

    def _shard_key(self, group_id: str) -> tuple[TopicImage, int] | None:
        topic = self._image().topics.get(OFFSETS_TOPIC_NAME)
        return None if topic is None else (topic, shard_of(group_id, len(topic.partitions)))

    def _owner(self, group_id: str) -> int:
        """The live owner of the group's shard."""
        found = self._shard_key(group_id)
        if found is None:
            return _NO_OWNER
        topic, shard = found
        leader = topic.partitions[shard].leader
        return leader if leader in self._image().nodes else _NO_OWNER

    def _leader_epoch(self, group_id: str) -> int:
        """Of the group's shard; -1 without an offsets topic."""
        found = self._shard_key(group_id)
        return -1 if found is None else found[0].partitions[found[1]].leader_epoch

    def _client_node(self, group_id: str) -> Node | None:
        found = self._shard_key(group_id)
        if found is None:
            return None
        topic, shard = found
        image = self._image()
        return image.nodes.get(client_leader(image, TopicPartition(topic.topic_id, shard), topic.partitions[shard]))

    # ---------------------------------------------------------------- requests

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """What the groups' coordinators answer; errors are in the response."""
        match api_key:
            case ApiKey.LIST_GROUPS:
                return await self._list_groups(request, context)
            case ApiKey.OFFSET_COMMIT:
                return await self._commit(Commit(request, context.api_version), context)
            case ApiKey.TXN_OFFSET_COMMIT:
                return await self._commit(TransactionalCommit(request, context.api_version), context)
        return await self._perform(group_request(api_key, request, context.api_version), context)

    async def _commit(self, asked: Commit, context: RequestContext) -> Any:
        """A committer's commits go one after another: one that is tried again must not undo a later one."""
        group_id = asked.request.group_id
        context = self._dated(context)  # waiting for its turn counts
        try:
            async with self._turn(group_id, asked.committer):
                return await self._perform(asked, context)
        except TimeoutError:
            return asked.refusal(group_id, ErrorCode.COORDINATOR_NOT_AVAILABLE)

    async def _list_groups(self, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        """ListGroups 0-5: the groups clients find at this node, from the nodes that own their shards.

        Tools merge the answers of all nodes, and older ones would show a group as often as it is listed: so only one
        proxy lists it. A node that is no proxy is asked by operators only, and lists all groups. If some shards cannot
        be listed now, the error code says so, and the groups of the others are returned.
        """
        listed: dict[int, list[ListedGroup]] = {}
        error = ErrorCode.NONE
        patience = self._patience()
        while True:
            image = self._image()
            topic = image.topics.get(OFFSETS_TOPIC_NAME)
            if topic is None:
                return ListGroupsResponse()  # as Kafka's brokers, which list what they know of
            left: dict[int, set[int]] = {}
            for number in self._listed_here(image, topic):
                if number not in listed:
                    leader = topic.partitions[number].leader
                    left.setdefault(leader if leader in image.nodes else _NO_OWNER, set()).add(number)
            answers = await asyncio.gather(*(self._list_at(owner, request, context) for owner in left))
            error = ErrorCode.NONE
            for (_, shards), answer in zip(left.items(), answers, strict=True):
                if answer.error_code:
                    error = ErrorCode(answer.error_code)
                    continue
                listed.update((number, []) for number in shards)
                for group in answer.groups:
                    number = shard_of(group.group_id, len(topic.partitions))
                    if number in shards:
                        listed[number].append(group)
            if error not in MOVING or not await patience.may_try_again(self._config.move_wait_ms):
                break
        return ListGroupsResponse(
            error_code=error, groups=[group for number in sorted(listed) for group in listed[number]]
        )

    def _listed_here(self, image: MetadataImage, topic: TopicImage) -> Iterable[int]:
        is_proxy = self._node_id in proxies_of(image).by_id
        for number, partition in enumerate(topic.partitions):
            found_at = home_proxy(image, TopicPartition(topic.topic_id, number), partition)
            if found_at in (self._node_id, NO_LEADER) or not is_proxy:
                yield number

    async def _list_at(self, owner: int, request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
        try:
            answer: ListGroupsResponse = await self._send(owner, ApiKey.LIST_GROUPS, request, context)
        except BmqError as error:
            return ListGroupsResponse(error_code=_told(error))
        return answer

    # ---------------------------------------------------------------- carrying a request there

    async def _perform(self, asked: GroupRequest, context: RequestContext) -> Any:
        """Have every group's part answered by its coordinator, and put them together in the request's order.

        One coordinator's failure is told to its groups alone.
        """
        context = self._dated(context)
        group_ids = asked.group_ids
        parts: list[Any] = [None] * len(group_ids)
        left: Sequence[int] = range(len(group_ids))
        maybe_done: set[int] = set()
        check: GroupRequest | None = None  # for those
        patience = self._patience()
        while True:
            by_owner: dict[tuple[int, bool], list[int]] = {}
            for number, place in enumerate(left, 1):
                if number % _GROUPS_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)
                is_checked = check is not None and place in maybe_done
                by_owner.setdefault((self._owner(group_ids[place]), is_checked), []).append(place)
            asking = [
                self._ask(owner, check if is_checked and check is not None else asked, places, context)
                for (owner, is_checked), places in by_owner.items()
            ]
            answers = [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)  # nearly always one
            moved: list[int] = []
            for places, answer in zip(by_owner.values(), answers, strict=True):
                for place, part in zip(places, answer.parts, strict=True):
                    parts[place] = asked.repeated(part) if place in maybe_done else part
                    if asked.code(part) in MOVING or (place not in maybe_done and asked.is_unsure(part)):
                        moved.append(place)
                        if answer.is_lost or asked.is_unsure(part):
                            maybe_done.add(place)
                            check = asked.check()
            if not moved or (maybe_done and not asked.is_repeatable):
                break
            if not asked.waits_for_members and self._is_old(context):
                break
            if not await patience.may_try_again(self._wait_ms()):
                break
            left = moved
        for place in maybe_done if check is not None else ():
            if asked.code(parts[place]) in MOVING:
                # The client would send it again by itself, and delete what was committed since.
                parts[place] = asked.refusal(group_ids[place], ErrorCode.REQUEST_TIMED_OUT)
        return asked.response(parts)

    async def _ask(self, owner: int, asked: GroupRequest, places: Sequence[int], context: RequestContext) -> _Answer:
        """The parts of the groups at these places, as their coordinator answers, or refused in its place."""
        group_ids = [asked.group_ids[place] for place in places]
        message = asked.about(group_ids, places)
        if context.api_version != asked.api_version:
            context = replace(context, api_version=asked.api_version)
        leader_epoch = self._leader_epoch(group_ids[0]) if len(group_ids) == 1 else -1
        try:
            response = await self._send(
                owner, asked.api_key, message, context, may_wait=asked.waits_for_members, leader_epoch=leader_epoch
            )
        except BmqError as error:
            code = _told(error)
            return _Answer([asked.refusal(group_id, code) for group_id in group_ids], isinstance(error, LinkLost))
        return _Answer(asked.parts(response), is_lost=False)

    async def _send(
        self,
        owner: int,
        api_key: ApiKey,
        message: Any,
        context: RequestContext,
        *,
        may_wait: bool = False,
        leader_epoch: int = -1,
    ) -> Any:
        """One try. Raises LinkLost when it may have been carried out, another BmqError when it was not."""
        if owner == _NO_OWNER:
            if self._has_topic():
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the group's shard has no live owner")
            # As Kafka: who does not know the topic is nobody's coordinator. Finding the coordinator makes the topic.
            raise KafkaError(ErrorCode.NOT_COORDINATOR, "there is no offsets topic yet")
        if owner == self._node_id:
            if self._local is None:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "this node has no group coordinator")
            self._require_young(context, may_wait)
            return await self._local.handle(api_key, message, context)
        if may_wait:
            return await self._send_waiting(owner, api_key, message, context, leader_epoch)
        await self._reach(owner, "")
        self._require_young(context, may_wait)
        return await forward(
            self._links,
            owner,
            api_key,
            message,
            context,
            timeout_s=self._config.answer_wait_ms / 1000,
            leader_epoch=leader_epoch,
        )

    async def _send_waiting(
        self, owner: int, api_key: ApiKey, message: Any, context: RequestContext, leader_epoch: int
    ) -> Any:
        """Over a separate link, `members_waiting_max` at most: what waits for members must not delay heartbeats."""
        if self._waiting[owner] >= self._config.members_waiting_max:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"too many members wait at node {owner}")
        self._waiting[owner] += 1
        try:
            await self._reach(owner, REBALANCE_PURPOSE)
            self._require_young(context, may_wait=True)
            timeout_s = self._config.rebalance_wait_max_ms / 1000
            return await forward(
                self._links,
                owner,
                api_key,
                message,
                context,
                timeout_s=timeout_s,
                purpose=REBALANCE_PURPOSE,
                leader_epoch=leader_epoch,
            )
        finally:
            self._waiting[owner] -= 1

    def _dated(self, context: RequestContext) -> RequestContext:
        return context if context.received_s is not None else replace(context, received_s=self._loop.time())

    def _is_old(self, context: RequestContext) -> bool:
        age_s = 0.0 if context.received_s is None else self._loop.time() - context.received_s
        return age_s > self._config.request_age_max_ms / 1000

    def _require_young(self, context: RequestContext, may_wait: bool) -> None:
        """Raises KafkaError COORDINATOR_NOT_AVAILABLE: the client asks anew if it still wants to.

        `may_wait`: clients wait for a rebalance for minutes; one that has given it up has closed its connection.
        """
        if self._stalls.is_stalled() or (not may_wait and self._is_old(context)):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the request is too old to be carried out")

    async def _reach(self, owner: int, purpose: str) -> None:
        """Have a link: what fails here was certainly not sent. Raises KafkaError COORDINATOR_NOT_AVAILABLE."""
        if self._links.ready(owner, purpose) is not None:
            return
        try:
            async with asyncio.timeout(self._config.answer_wait_ms / 1000):
                await self._links.link(owner, purpose)
        except (TimeoutError, LinkLost) as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"node {owner} is not reached: {error}") from None

    def _has_topic(self) -> bool:
        return OFFSETS_TOPIC_NAME in self._image().topics

    def _wait_ms(self) -> int:
        return self._config.move_wait_ms if self._has_topic() else self._config.topic_wait_ms

    def _patience(self) -> _Patience:
        backoff = Backoff(
            self._random, first_s=self._config.retry_min_ms / 1000, max_s=self._config.retry_max_ms / 1000
        )
        return _Patience(self._loop, self._waits, backoff)

    @asynccontextmanager
    async def _turn(self, group_id: str, member_id: str) -> AsyncIterator[None]:
        """One at a time for each member. Raises TimeoutError when those before took too long."""
        key = (group_id, member_id)
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = _Turn()
        turn.users += 1
        try:
            async with asyncio.timeout(self._config.move_wait_ms / 1000):
                await turn.lock.acquire()
            try:
                yield
            finally:
                turn.lock.release()
        finally:
            turn.users -= 1
            if not turn.users:
                del self._turns[key]


class _Answer(NamedTuple):
    """`is_lost`: what came of it is not known."""

    parts: Sequence[Any]
    is_lost: bool


class _Turn:
    """Whose turn it is to commit, and how many want one."""

    __slots__ = ("lock", "users")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class _Patience:
    """The tries of one request: how long to go on is counted from the first failure, since an answer may take long."""

    __slots__ = ("_backoff", "_failed_s", "_loop", "_waits")

    def __init__(self, loop: asyncio.AbstractEventLoop, waits: ImageWaits, backoff: Backoff) -> None:
        self._loop = loop
        self._waits = waits
        self._backoff = backoff
        self._failed_s: float | None = None

    async def may_try_again(self, wait_ms: int) -> bool:
        """Wait a moment, or until the image changes; False when `wait_ms` are over."""
        now_s = self._loop.time()
        if self._failed_s is None:
            self._failed_s = now_s
        left_s = self._failed_s + wait_ms / 1000 - now_s
        if left_s <= 0:
            return False
        await self._waits.pause(min(self._backoff.next_s(), left_s))
        return True


def _told(error: BmqError) -> ErrorCode:
    """What a client is told of a try that failed: a code that sends it to find the coordinator again, if that may help."""
    if error.code in MOVING or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return error.code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
