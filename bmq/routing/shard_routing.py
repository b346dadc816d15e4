"""Routing of keyed requests by one proxy: each request goes to the node that owns its key's shard.

A key's shard is a partition of an internal topic, and its coordinator lives in the process that owns that partition.
While a shard moves, requests are retried here instead of by the client, for a bounded time after the first failure (the
request classes say which may be repeated). After that the client gets the usual coordinator error.

Except for requests that wait for other members, none is sent later than `request_age_max_ms` after it was received: a
client that gave it up may have continued over another connection, and the old request would undo that.

Clients are sent to the owner's node if that has a proxy, and otherwise to the proxy that stands in for it, so that most
requests need no second hop; any proxy serves any key.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from bmq.aio.backoff import Backoff
from bmq.coordinator.runtime.directory import shard_of
from bmq.coordinator.runtime.shard import Shard
from bmq.dataclass import dataclass
from bmq.internode_client.envelope import forward
from bmq.internode_client.link import LinkLost
from bmq.internode_client.links import Links
from bmq.log.partition_log import TopicPartition
from bmq.membership.image_waits import ImageWaits
from bmq.metadata.image import NO_LEADER, MetadataImage, Node, TopicImage
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError
from bmq.protocol.request_context import RequestContext
from bmq.proxy.live_proxies import proxies_of
from bmq.proxy.stall_watch import StallWatch
from bmq.proxy.topic_views import client_leader, home_proxy
from bmq.routing.shard_requests import MOVING, ShardRequest

REBALANCE_PURPOSE: Final = "rebalance"
_NO_OWNER: Final = NO_LEADER
_KEYS_PER_TURN_MAX: Final = 10  # looked up in one turn of the loop: a long name takes milliseconds

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ShardRoutingConfig:
    """How long requests wait for a shard that is moving."""

    move_wait_ms: int = 5_000
    """Counted from the first failed try; then the client gets an error."""
    topic_wait_ms: int = 1_000
    """While the topic is missing in this node's image: another proxy may have just created it for the client."""
    answer_wait_ms: int = 8_000
    """Wait for an owner's answer; longer than a coordinator lets its clients wait for a loading shard."""
    rebalance_wait_max_ms: int = 30 * 60 * 1000
    """Wait for the answer to a JoinGroup or SyncGroup, which wait for other members."""
    members_waiting_max: int = 8_000
    """JoinGroups and SyncGroups in flight to one owner; below its listener's limit for one connection."""
    request_age_max_ms: int = 10_000
    """Oldest request that is sent or carried out here. Far below clients' timeouts (30 s in Java, 60 s in librdkafka),
    since it may have waited unread before (`loop_stall_max_ms`) and may wait so again at the owner."""
    retry_min_ms: int = 10
    retry_max_ms: int = 250


class TopicMaker(Protocol):
    """The part of the controller that is used here."""

    async def auto_create_topic(self, name: str) -> None: ...


class LoadedShards(Protocol):
    """bmq.coordinator.runtime.directory.ShardDirectory implements this."""

    @property
    def ready(self) -> Mapping[int, Shard]: ...


class LocalCoordinator(Protocol):
    """The coordinator of the shards that this process owns."""

    @property
    def directory(self) -> LoadedShards: ...
    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any: ...
    async def prepare(self, key: str, /) -> None: ...
    def resign(self, shard: int) -> None: ...


class Listing(NamedTuple, Generic[T]):
    """One owner's answer to a request that lists everything it has."""

    error: int
    items: Sequence[T]


class NodeRoutes(NamedTuple):
    """The ways of one node to the others: links, what it knows of the cluster, and the controller that makes topics."""

    node_id: int
    links: Links
    image: Callable[[], MetadataImage]
    controller: TopicMaker
    random: Random
    stalls: StallWatch


class ShardRouting:
    """`local`: the coordinator of the shards this process owns, if it has one. `what`: what a key names."""

    def __init__(
        self,
        topic_name: str,
        what: str,
        local: LocalCoordinator | None,
        routes: NodeRoutes,
        config: ShardRoutingConfig,
    ) -> None:
        self._topic_name = topic_name
        self._what = what
        self._node_id = routes.node_id
        self._local = local
        self._links = routes.links
        self._image = routes.image
        self._controller = routes.controller
        self._config = config
        self._random = routes.random
        self._stalls = routes.stalls
        self._loop = asyncio.get_running_loop()
        self._waits = ImageWaits(routes.image)
        self._waiting: Counter[int] = Counter()  # by owner

    def image_changed(self, old: MetadataImage, new: MetadataImage) -> None:
        """Call after each new image of this node: waiting requests look again, and shards that moved are resigned."""
        before, topic = old.topics.get(self._topic_name), new.topics.get(self._topic_name)
        if self._local is not None and topic is not before:
            for number, shard in tuple(self._local.directory.ready.items()):
                if not self._is_ours(topic, number, shard.state_log.log.leader_epoch):
                    self._local.resign(number)
        self._waits.changed()

    def changed(self) -> None:
        """Call when this process was given partitions: requests that wait for a shard look again."""
        self._waits.changed()

    def end_waits(self) -> None:
        """This node stops: who waits for an owner is told at once to find it anew. What was sent to one is awaited."""
        self._waits.end()

    def _is_ours(self, topic: TopicImage | None, number: int, leader_epoch: int) -> bool:
        partition = None if topic is None else topic.partition(number)
        return partition is not None and partition.leader == self._node_id and partition.leader_epoch == leader_epoch

    # ---------------------------------------------------------------- where a key is

    async def prepare(self, key: str) -> Node | None:
        """The node where clients find the key, once the shard has a live owner; the topic is created if need be.

        A shard of this process is loaded too. None: this node. Raises KafkaError COORDINATOR_NOT_AVAILABLE,
        COORDINATOR_LOAD_IN_PROGRESS, or the reason why there is no topic.
        """
        if self._topic_name not in self._image().topics:
            try:
                await self._controller.auto_create_topic(self._topic_name)
            except BmqError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
        retry = self._request_retry()
        while True:
            owner = self._owner(key)
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if owner == self._node_id and self._local is not None:
                try:
                    await self._local.prepare(key)
                    return self._client_node(key)
                except KafkaError as error:
                    if error.code not in MOVING:
                        raise
                    code = error.code
            elif owner != _NO_OWNER:
                return self._client_node(key)
            if not await retry.may_try_again(self._config.move_wait_ms):
                raise KafkaError(code, f"the shard of {self._what} {key} has no owner that serves it")

    def _shard_key(self, key: str) -> tuple[TopicImage, int] | None:
        topic = self._image().topics.get(self._topic_name)
        return None if topic is None else (topic, shard_of(key, len(topic.partitions)))

    def _owner(self, key: str) -> int:
        """The live owner of the key's shard, or _NO_OWNER."""
        found = self._shard_key(key)
        if found is None:
            return _NO_OWNER
        topic, shard = found
        leader = topic.partitions[shard].leader
        return leader if leader in self._image().nodes else _NO_OWNER

    def _leader_epoch(self, key: str) -> int:
        """The leader epoch of the key's shard; -1 without a topic."""
        found = self._shard_key(key)
        return -1 if found is None else found[0].partitions[found[1]].leader_epoch

    def _client_node(self, key: str) -> Node | None:
        found = self._shard_key(key)
        if found is None:
            return None
        topic, shard = found
        image = self._image()
        return image.nodes.get(client_leader(image, TopicPartition(topic.topic_id, shard), topic.partitions[shard]))

    # ---------------------------------------------------------------- all that there is

    async def _list(
        self,
        api_key: ApiKey,
        request: Any,
        context: RequestContext,
        listing: Callable[[Any], Listing[T]],
        key_of: Callable[[T], str],
    ) -> Listing[T]:
        """The list that clients get from this node, collected from the nodes that own the shards.

        Tools merge the answers of all nodes, and older tools would show an item as often as it is listed, so only one
        proxy lists each. A node that is no proxy is asked by operators only, and lists everything. If some shards
        cannot be listed now, the error code says so, and the items of the others are returned.
        """
        listed: dict[int, list[T]] = {}
        error = ErrorCode.NONE
        retry = self._request_retry()
        while True:
            image = self._image()
            topic = image.topics.get(self._topic_name)
            if topic is None:
                return Listing(ErrorCode.NONE, ())  # like Kafka's brokers, which list what they know
            left: dict[int, set[int]] = {}
            for number in self._listed_here(image, topic):
                if number not in listed:
                    leader = topic.partitions[number].leader
                    left.setdefault(leader if leader in image.nodes else _NO_OWNER, set()).add(number)
            answers = await asyncio.gather(
                *(self._list_at(owner, api_key, request, context, listing) for owner in left)
            )
            error = ErrorCode.NONE
            for (_, shards), answer in zip(left.items(), answers, strict=True):
                if answer.error:
                    error = ErrorCode(answer.error)
                    continue
                listed.update((number, []) for number in shards)
                for item in answer.items:
                    number = shard_of(key_of(item), len(topic.partitions))
                    if number in shards:
                        listed[number].append(item)
            if error not in MOVING or not await retry.may_try_again(self._config.move_wait_ms):
                break
        return Listing(error, [item for number in sorted(listed) for item in listed[number]])

    def _listed_here(self, image: MetadataImage, topic: TopicImage) -> Iterable[int]:
        is_proxy = self._node_id in proxies_of(image).by_id
        for number, partition in enumerate(topic.partitions):
            found_at = home_proxy(image, TopicPartition(topic.topic_id, number), partition)
            if found_at in (self._node_id, NO_LEADER) or not is_proxy:
                yield number

    async def _list_at(
        self,
        owner: int,
        api_key: ApiKey,
        request: Any,
        context: RequestContext,
        listing: Callable[[Any], Listing[T]],
    ) -> Listing[T]:
        try:
            return listing(await self._send(owner, api_key, request, context))
        except BmqError as error:
            return Listing(_client_code(error), ())

    # ---------------------------------------------------------------- carrying a request there

    async def _perform(self, asked: ShardRequest, context: RequestContext) -> Any:
        """Get every key's part from its coordinator, and merge them in the request's order.

        A coordinator's failure only affects its own keys.
        """
        context = self._dated(context)
        keys = asked.keys
        parts: list[Any] = [None] * len(keys)
        left: Sequence[int] = range(len(keys))
        maybe_done: set[int] = set()
        check: ShardRequest | None = None  # for the parts in `maybe_done`
        retry = self._request_retry()
        while True:
            by_owner: dict[tuple[int, bool], list[int]] = {}
            for number, place in enumerate(left, 1):
                if number % _KEYS_PER_TURN_MAX == 0:
                    await asyncio.sleep(0)
                is_checked = check is not None and place in maybe_done
                by_owner.setdefault((self._owner(keys[place]), is_checked), []).append(place)
            asking = [
                self._ask(owner, check if is_checked and check is not None else asked, places, context)
                for (owner, is_checked), places in by_owner.items()
            ]
            answers = [await asking[0]] if len(asking) == 1 else await asyncio.gather(*asking)  # nearly always one
            moved: list[int] = []
            for places, answer in zip(by_owner.values(), answers, strict=True):
                for place, part in zip(places, answer.parts, strict=True):
                    parts[place] = asked.repeated(part) if place in maybe_done else part
                    is_unsure = not answer.is_refused and asked.is_unsure(part)
                    if asked.code(part) in MOVING or (place not in maybe_done and is_unsure):
                        moved.append(place)
                        if answer.is_lost or is_unsure:
                            maybe_done.add(place)
                            check = asked.check()
            if not moved or (maybe_done and not asked.is_repeatable):
                break
            if not asked.waits_for_members and self._is_old(context):
                break
            if not await retry.may_try_again(self._wait_ms()):
                break
            left = moved
        for place in maybe_done if check is not None else ():
            if asked.code(parts[place]) in MOVING:
                # The client would retry this by itself, and undo what was done since.
                parts[place] = asked.refusal(keys[place], ErrorCode.REQUEST_TIMED_OUT)
        return asked.response(parts)

    async def _ask(self, owner: int, asked: ShardRequest, places: Sequence[int], context: RequestContext) -> _Answer:
        """The parts of the keys at these places: the coordinator's answers, or refusals in its place."""
        named = asked.keys
        keys = [named[place] for place in places]
        message = asked.about(keys, places)
        if context.api_version != asked.api_version:
            context = replace(context, api_version=asked.api_version)
        leader_epoch = self._leader_epoch(keys[0]) if len(keys) == 1 else -1
        try:
            response = await self._send(
                owner, asked.api_key, message, context, may_wait=asked.waits_for_members, leader_epoch=leader_epoch
            )
        except BmqError as error:
            code = _client_code(error)
            is_lost = isinstance(error, LinkLost)
            return _Answer([asked.refusal(key, code) for key in keys], is_lost, is_refused=not is_lost)
        return _Answer(asked.parts(response), is_lost=False, is_refused=False)

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
        """Try once. Raises LinkLost when it may have been carried out, another BmqError when it was not."""
        if owner == _NO_OWNER:
            if self._has_topic():
                raise KafkaError(
                    ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the shard of the {self._what} has no live owner"
                )
            # As in Kafka, a node that does not know the topic is no coordinator. FindCoordinator creates the topic.
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"there is no {self._topic_name} yet")
        if owner == self._node_id:
            if self._local is None:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"this node has no coordinator of a {self._what}")
            self._require_young(context, may_wait)
            return await self._local.handle(api_key, message, context)
        return await self._send_over(owner, api_key, message, context, may_wait=may_wait, leader_epoch=leader_epoch)

    async def _send_over(
        self, owner: int, api_key: ApiKey, message: Any, context: RequestContext, *, may_wait: bool, leader_epoch: int
    ) -> Any:
        """Send it to another node. Raises as `_send`."""
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
        """Send over a separate link, up to `members_waiting_max`, because waiting requests must not delay
        heartbeats."""
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
        return context if context.received_s is not None else replace(context, received_s=self._stalls.now_s())

    def _is_old(self, context: RequestContext) -> bool:
        age_s = 0.0 if context.received_s is None else self._stalls.now_s() - context.received_s
        return age_s > self._config.request_age_max_ms / 1000

    def _require_young(self, context: RequestContext, may_wait: bool) -> None:
        """Raises KafkaError COORDINATOR_NOT_AVAILABLE for an old request: a client that still wants it retries.

        `may_wait`: clients wait minutes for a rebalance; one that gave up has closed its connection.
        """
        if self._stalls.is_stalled() or (not may_wait and self._is_old(context)):
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "the request is too old to be carried out")

    async def _reach(self, owner: int, purpose: str) -> None:
        """Open a link, so that a failure here means nothing was sent. Raises KafkaError COORDINATOR_NOT_AVAILABLE."""
        if self._links.ready(owner, purpose) is not None:
            return
        try:
            async with asyncio.timeout(self._config.answer_wait_ms / 1000):
                await self._links.link(owner, purpose)
        except (TimeoutError, LinkLost) as error:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"node {owner} is not reached: {error}") from None

    def _has_topic(self) -> bool:
        return self._topic_name in self._image().topics

    def _wait_ms(self) -> int:
        return self._config.move_wait_ms if self._has_topic() else self._config.topic_wait_ms

    def _request_retry(self) -> _RequestRetry:
        backoff = Backoff(
            self._random, first_s=self._config.retry_min_ms / 1000, max_s=self._config.retry_max_ms / 1000
        )
        return _RequestRetry(self._loop, self._waits, backoff)


class _Answer(NamedTuple):
    """`is_lost`: the outcome is unknown; `is_refused`: no coordinator has seen it."""

    parts: Sequence[Any]
    is_lost: bool
    is_refused: bool


class _RequestRetry:
    """The retries of one request: the time limit counts from the first failure, since an answer may take long."""

    __slots__ = ("_backoff", "_failed_s", "_loop", "_waits")

    def __init__(self, loop: asyncio.AbstractEventLoop, waits: ImageWaits, backoff: Backoff) -> None:
        self._loop = loop
        self._waits = waits
        self._backoff = backoff
        self._failed_s: float | None = None

    async def may_try_again(self, wait_ms: int) -> bool:
        """Pause, or wait until the image changes; False once `wait_ms` have passed, or where nobody may wait any more."""
        now_s = self._loop.time()
        if self._failed_s is None:
            self._failed_s = now_s
        left_s = self._failed_s + wait_ms / 1000 - now_s
        if left_s <= 0 or self._waits.is_over:
            return False
        await self._waits.pause(min(self._backoff.next_s(), left_s))
        return not self._waits.is_over


def _client_code(error: BmqError) -> ErrorCode:
    """The code that a client gets for a failed try: one that makes it find the coordinator again, if that may help."""
    if error.code in MOVING or error.code is ErrorCode.UNKNOWN_SERVER_ERROR:
        return error.code
    return ErrorCode.COORDINATOR_NOT_AVAILABLE
