"""The controller as a proxy uses it: requests go to the currently active one, and are retried until they time out.

If the controller is lost meanwhile, the request may or may not have been carried out, so it is sent again to the next
one. Errors which only mean that the first try succeeded become success:

- CreateTopics, TOPIC_ALREADY_EXISTS: NONE, if this node's image did not have the topic when the request came and the
  topic now is as requested. (Kafka returns the error. A client that creates the very same topic at the same time also
  gets NONE: the topic exists as both wanted it.)
- DeleteTopics, an unknown topic: NONE, if the image had it. A retry, or a late try, names the topic by its id: a topic
  created under its name meanwhile is another one.
- CreatePartitions, INVALID_PARTITIONS: NONE, if the topic had fewer and has just as many now.
- UnregisterBroker and UnregisterController, an id that is not registered: NONE, if an earlier try may have removed it.
- AlterUserScramCredentials, RESOURCE_NOT_FOUND for a deletion: NONE, if the image had the keys.
- ExpireDelegationToken, DELEGATION_TOKEN_NOT_FOUND for a token that has to end at once: NONE.

The other requests may be repeated as they are. The answer to one of the first three, and to a change of users or tokens, waits
until this node's own image shows the change, so that a client that created a topic through this proxy finds it here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.dataclass import dataclass
from bmq.election.election import ControllerClaim
from bmq.internode_client.envelope import forward
from bmq.internode_client.link import LinkLost
from bmq.internode_client.links import Links
from bmq.membership.image_waits import ImageWaits
from bmq.metadata.image import MetadataImage, TopicImage
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.default_topic import default_topic
from bmq.protocol.delete_topics_versions import as_version_knows, with_topic_states
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError, UnsupportedVersion
from bmq.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from bmq.protocol.messages.allocate_producer_ids_response import AllocateProducerIdsResponse
from bmq.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from bmq.protocol.messages.alter_user_scram_credentials_response import AlterUserScramCredentialsResponse
from bmq.protocol.messages.create_partitions_request import CreatePartitionsRequest
from bmq.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from bmq.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from bmq.protocol.request_context import RequestContext, by_itself
from bmq.proxy.services import Controller

_DEFAULTS: Final = -1
_LEADER_CHECK_S: Final = 0.1
_SENT_WITHIN: Final = 0.8
_UNKNOWN_TOPIC: Final = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
_PASSING: Final = (ErrorCode.NOT_CONTROLLER, ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED)

_NOT_REGISTERED: Final = {
    ApiKey.UNREGISTER_BROKER: ErrorCode.BROKER_ID_NOT_REGISTERED,
    ApiKey.UNREGISTER_CONTROLLER: ErrorCode.CONTROLLER_ID_NOT_REGISTERED,
}

_Send = Callable[[ControllerClaim, float, bool], Coroutine[Any, Any, Any]]
"""(controller, time limit in seconds, whether an earlier try may have done the work)"""

_log = structlog.get_logger("bmq.routing")


@dataclass(frozen=True, slots=True)
class RemoteControllerConfig:
    """Time limits and pauses of retries."""

    retry_min_ms: int = 20
    retry_max_ms: int = 300
    request_wait_min_ms: int = 1_000
    """Least time limit, even for requests that set less: enough for a round trip."""
    request_wait_max_ms: int = 120_000
    request_wait_default_ms: int = 30_000
    """For requests that set no timeout, like Kafka's request.timeout.ms."""
    by_name_ms: int = 2_000
    """A topic is deleted by its requested name within this time, later only by the id that the name had then."""
    auto_create_wait_ms: int = 15_000
    image_wait_ms: int = 5_000
    """How long an answer waits for this node's own image to show the change."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An answer. `is_repeated`: an earlier try may have done the work."""

    response: Any
    is_repeated: bool


class RemoteController:
    """Implements bmq.proxy.services.Controller. `leader`: the active controller as far as the election knows.

    `local`: that controller, if it is in this process: it is called directly.
    """

    def __init__(
        self,
        links: Links,
        image: Callable[[], MetadataImage],
        leader: Callable[[], ControllerClaim | None],
        *,
        node_id: int = -1,
        local: Callable[[], Controller | None] = lambda: None,
        config: RemoteControllerConfig | None = None,
        random: Random | None = None,
        elapsed_s: Callable[[], float] | None = None,
    ) -> None:
        self._links = links
        self._image = image
        self._leader = leader
        self._node_id = node_id
        self._local = local
        self._config = config or RemoteControllerConfig()
        self._random = random or Random(node_id)
        self._loop = asyncio.get_running_loop()
        self._elapsed_s = elapsed_s or self._loop.time
        self._waits = ImageWaits(image)
        self._auto_creations: dict[str, asyncio.Task[None]] = {}

    @property
    def image(self) -> MetadataImage:
        """This node's own image."""
        return self._image()

    def image_changed(self) -> None:
        """Call after each new image of this node."""
        self._waits.changed()

    async def handle(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """The controller's answer.

        Raises KafkaError for the whole request: REQUEST_TIMED_OUT, or a code of the controller that a retry cannot
        cure.
        """
        match api_key:
            case ApiKey.CREATE_TOPICS:
                return await self._create_topics(request, context)
            case ApiKey.DELETE_TOPICS:
                return await self._delete_topics(request, context)
            case ApiKey.CREATE_PARTITIONS:
                return await self._create_partitions(request, context)
            case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
                return await self._alter_users(request, context)
            case ApiKey.CREATE_DELEGATION_TOKEN | ApiKey.RENEW_DELEGATION_TOKEN | ApiKey.EXPIRE_DELEGATION_TOKEN:
                return await self._change_tokens(api_key, request, context)
        asked = await self._ask(api_key, request, context)
        if asked.is_repeated and api_key in _NOT_REGISTERED and asked.response.error_code == _NOT_REGISTERED[api_key]:
            asked.response.error_code, asked.response.error_message = ErrorCode.NONE, ""
        return asked.response

    # --- topics

    async def _create_topics(self, request: CreateTopicsRequest, context: RequestContext) -> CreateTopicsResponse:
        """Waits, up to `image_wait_ms`, until this node's image shows the created topics."""
        before = self.image.topics
        asked = await self._ask(ApiKey.CREATE_TOPICS, request, context)
        response: CreateTopicsResponse = asked.response
        if request.validate_only:
            return response
        if asked.is_repeated:
            await self._claim_created(request, response, before)
        made = [result.name for result in response.topics if not result.error_code]
        await self._until_shown(lambda image: all(name in image.topics for name in made))
        return response

    async def _claim_created(
        self, request: CreateTopicsRequest, response: CreateTopicsResponse, before: Mapping[str, TopicImage]
    ) -> None:
        wanted = {one.name: one for one in request.topics}
        for result in response.topics:
            if result.error_code != ErrorCode.TOPIC_ALREADY_EXISTS or result.name in before:
                continue
            if not await self._until_shown(lambda image, name=result.name: name in image.topics):  # type: ignore[misc]
                continue
            topic = self.image.topics[result.name]
            if _is_as_asked(wanted[result.name], topic):
                _created(result, topic)

    async def _delete_topics(self, request: DeleteTopicsRequest, context: RequestContext) -> DeleteTopicsResponse:
        before = self.image

        def known_id(one: DeleteTopicState) -> DeleteTopicState:
            topic = before.topics.get(one.name or "")
            return one if topic is None or one.topic_id is not None else DeleteTopicState(topic_id=topic.topic_id)

        named = with_topic_states(request, context.api_version)
        again = replace(named, topics=[known_id(one) for one in named.topics])
        asked = await self._ask(ApiKey.DELETE_TOPICS, request, context, again=again)
        response: DeleteTopicsResponse = as_version_knows(asked.response, context.api_version)
        gone = []
        for result in response.responses:
            topic = before.topics_by_id.get(result.topic_id) if result.topic_id is not None else None
            topic = topic or before.topics.get(result.name or "")
            if topic is None:
                continue
            if asked.is_repeated:
                _deleted(result, topic)
            if not result.error_code:
                gone.append(topic.topic_id)
        await self._until_shown(lambda image: not any(topic_id in image.topics_by_id for topic_id in gone))
        return response

    async def _create_partitions(
        self, request: CreatePartitionsRequest, context: RequestContext
    ) -> CreatePartitionsResponse:
        before = self.image.topics
        asked = await self._ask(ApiKey.CREATE_PARTITIONS, request, context)
        response: CreatePartitionsResponse = asked.response
        if request.validate_only:
            return response
        counts = {one.name: one.count for one in request.topics}

        def is_grown(image: MetadataImage, name: str) -> bool:
            topic = image.topics.get(name)
            return topic is None or len(topic.partitions) >= counts.get(name, 0)

        for result in response.results:
            was = before.get(result.name)
            if asked.is_repeated and result.error_code == ErrorCode.INVALID_PARTITIONS and was is not None:
                await self._claim_grown(result, len(was.partitions), counts.get(result.name, 0))
        grown = [result.name for result in response.results if not result.error_code]
        await self._until_shown(lambda image: all(is_grown(image, name) for name in grown))
        return response

    async def _claim_grown(self, result: CreatePartitionsTopicResult, before: int, wanted: int) -> None:
        def is_just_so(image: MetadataImage) -> bool:
            topic = image.topics.get(result.name)
            return topic is not None and len(topic.partitions) == wanted

        if before < wanted and await self._until_shown(is_just_so):
            result.error_code, result.error_message = ErrorCode.NONE, None

    async def _alter_users(
        self, request: AlterUserScramCredentialsRequest, context: RequestContext
    ) -> AlterUserScramCredentialsResponse:
        """Waits until this node's image shows the new keys, so that a user who was just added can log in here."""
        before = self.image.users
        asked = await self._ask(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request, context)
        response: AlterUserScramCredentialsResponse = asked.response
        had = {one.name for one in request.deletions if one.mechanism in before.get(one.name, {})}
        for result in response.results:
            if asked.is_repeated and result.error_code == ErrorCode.RESOURCE_NOT_FOUND and result.user in had:
                result.error_code, result.error_message = ErrorCode.NONE, None
        changed = [result.user for result in response.results if not result.error_code]
        await self._until_shown(lambda image: all(image.users.get(name) is not before.get(name) for name in changed))
        return response

    async def _change_tokens(self, api_key: ApiKey, request: Any, context: RequestContext) -> Any:
        """Waits until this node's image shows a change, so that a token that was just made can log in here."""
        before = self.image.delegation_tokens
        asked = await self._ask(api_key, request, context)
        response = asked.response
        period_ms = getattr(request, "expiry_time_period_ms", 0)
        if asked.is_repeated and period_ms < 0 and response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND:
            response.error_code = ErrorCode.NONE
        elif not response.error_code:
            made = getattr(response, "token_id", None)
            await self._until_shown(
                lambda image: image.delegation_tokens is not before if made is None else made in image.delegation_tokens
            )
        return response

    async def auto_create_topic(self, name: str) -> None:
        """Create a topic with the controller's defaults; this node's image has it when this returns.

        Calls for one name share one creation. Raises KafkaError with the code and message CreateTopics would give, or
        REQUEST_TIMED_OUT.
        """
        if name in self.image.topics:
            return
        task = self._auto_creations.get(name)
        if task is None:
            task = self._auto_creations[name] = self._loop.create_task(self._auto_create(name))
            task.add_done_callback(lambda _: self._auto_creations.pop(name, None) and None)
            task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be waiting any more
        await asyncio.shield(task)

    async def _auto_create(self, name: str) -> None:
        wait_ms = self._config.auto_create_wait_ms
        # The controller knows the settings of internal topics, so they are created with defaults like all others.
        request = CreateTopicsRequest(topics=(default_topic(name),), timeout_ms=wait_ms)
        asked = await self._ask(ApiKey.CREATE_TOPICS, request, by_itself(ApiKey.CREATE_TOPICS))
        result: CreatableTopicResult = asked.response.topics[0]
        if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise KafkaError(ErrorCode(result.error_code), result.error_message or "")
        if not await self._until_shown(lambda image: name in image.topics):
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"topic {name} was made, but this node has not heard of it")

    # --- producer ids

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that were never given out. Blocks of lost answers are never used. Raises
        KafkaError."""

        async def send(claim: ControllerClaim, timeout_s: float, is_repeated: bool) -> range:
            here = self._here(claim)
            if here is not None:
                return await here.allocate_producer_ids()
            node = self.image.nodes.get(self._node_id)
            request = AllocateProducerIdsRequest(
                broker_id=self._node_id, broker_epoch=-1 if node is None else node.epoch
            )
            response: AllocateProducerIdsResponse = await self._links.call(
                claim.node_id, ApiKey.ALLOCATE_PRODUCER_IDS, request, timeout_s=timeout_s
            )
            if response.error_code:
                code = ErrorCode(response.error_code)
                raise KafkaError(code, f"controller {claim.node_id} gives no producer ids: {code.name}")
            return range(response.producer_id_start, response.producer_id_start + response.producer_id_len)

        wait_s = self._config.request_wait_default_ms / 1000
        block: range = (await self._try(ApiKey.ALLOCATE_PRODUCER_IDS, wait_s, send)).response
        return block

    # --- asking

    async def _ask(self, api_key: ApiKey, request: Any, context: RequestContext, *, again: Any = None) -> _Asked:
        """The controller's answer. `again`: the request to send instead, in the newest version, when an earlier try may
        have done the work, or the first one is late. Raises KafkaError."""
        config = self._config
        # Requests that carry a timeout tell how long their client waits.
        wait_ms = getattr(request, "timeout_ms", config.request_wait_default_ms)
        wait_s = min(max(wait_ms, config.request_wait_min_ms), config.request_wait_max_ms) / 1000
        newest = replace(context, api_version=APIS[api_key].version_max)
        by_name_until_s = self._elapsed_s() + config.by_name_ms / 1000

        async def send(claim: ControllerClaim, timeout_s: float, is_repeated: bool) -> Any:
            is_late = is_repeated or self._elapsed_s() > by_name_until_s
            message, asking = (again, newest) if is_late and again is not None else (request, context)
            here = self._here(claim)
            if here is None:
                return await forward(self._links, claim.node_id, api_key, message, asking, timeout_s=timeout_s)
            async with asyncio.timeout(timeout_s):
                return await here.handle(api_key, message, asking)

        return await self._try(api_key, wait_s, send)

    def _here(self, claim: ControllerClaim) -> Controller | None:
        """The active controller, if it is in this process."""
        return self._local() if claim.node_id == self._node_id else None

    async def _try(self, api_key: ApiKey, wait_s: float, send: _Send) -> _Asked:
        """Retry until a controller answers.

        Nothing is sent in the last fifth of the time: clients count it from when they sent the request, and may have
        given it up by then. Raises KafkaError: REQUEST_TIMED_OUT, or a code of the controller that a retry cannot cure.
        """
        elapsed_s = self._elapsed_s
        deadline_s = elapsed_s() + wait_s
        send_until_s = elapsed_s() + wait_s * _SENT_WITHIN
        backoff = Backoff(
            self._random, first_s=self._config.retry_min_ms / 1000, max_s=self._config.retry_max_ms / 1000
        )
        is_repeated = False
        reason = "there is no active controller"
        while (left_s := send_until_s - elapsed_s()) > 0:
            claim = self._leader()
            if claim is not None:
                try:
                    await self._reach(claim, left_s)
                    sent = send(claim, max(deadline_s - elapsed_s(), 0), is_repeated)
                    return _Asked(await self._while_leading(claim, sent), is_repeated)
                except _NotReached as error:
                    reason = str(error)
                except KafkaError as error:
                    if not isinstance(error, LinkLost) and error.code not in _PASSING:
                        raise
                    is_repeated, reason = True, str(error)
            await asyncio.sleep(min(backoff.next_s(), max(send_until_s - elapsed_s(), 0)))
        _log.warning("controller_not_reached", api=api_key.name, waited_s=wait_s, reason=reason)
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no controller answered within {wait_s:g} s: {reason}")

    async def _reach(self, claim: ControllerClaim, timeout_s: float) -> None:
        """Open a link to the controller, so that a failure here means nothing was sent. Raises _NotReached."""
        if claim.node_id == self._node_id:
            if self._local() is None:
                raise _NotReached("the controller of this node has not begun")
            return
        if self._links.ready(claim.node_id) is not None:
            return
        try:
            async with asyncio.timeout(timeout_s):
                await self._links.link(claim.node_id)
        except (TimeoutError, LinkLost) as error:
            raise _NotReached(f"controller {claim.node_id} is not reached: {error}") from None

    async def _while_leading(self, claim: ControllerClaim, sent: Coroutine[Any, Any, Any]) -> Any:
        """Wait for the answer, but not after the controller was replaced: a hung one would never answer.

        Raises LinkLost (also for TimeoutError), KafkaError for UnsupportedVersion, and what `sent` raises.
        """
        task = self._loop.create_task(sent)
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=_LEADER_CHECK_S)
                leader = self._leader()
                if not task.done() and leader is not None and leader.epoch > claim.epoch:
                    raise LinkLost(f"controller {claim.node_id} was replaced before it answered")
            return task.result()
        except UnsupportedVersion as error:
            raise KafkaError(error.code, str(error)) from error
        except TimeoutError:
            raise LinkLost(f"controller {claim.node_id}, in this process, has not answered in time") from None
        finally:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # mark it as retrieved, in case we are cancelled in the turn in which it failed

    async def _until_shown(self, is_there: Callable[[MetadataImage], bool]) -> bool:
        return await self._waits.until(is_there, self._config.image_wait_ms / 1000)


class _NotReached(Exception):
    """The controller was not reached, so nothing was sent."""


def _is_as_asked(wanted: CreatableTopic, topic: TopicImage) -> bool:
    count = len(wanted.assignments) or wanted.num_partitions
    replicas = len(wanted.assignments[0].broker_ids) if wanted.assignments else wanted.replication_factor
    configs = {one.name: one.value for one in wanted.configs if one.value is not None}
    return (
        count in (_DEFAULTS, len(topic.partitions))
        and replicas in (_DEFAULTS, len(topic.partitions[0].replicas))
        and all(topic.configs.get(name) == value for name, value in configs.items())
    )


def _created(result: CreatableTopicResult, topic: TopicImage) -> None:
    result.error_code, result.error_message = ErrorCode.NONE, None
    result.topic_id = topic.topic_id
    result.num_partitions = len(topic.partitions)
    result.replication_factor = len(topic.partitions[0].replicas)
    result.configs = None  # null, as for a client that may not see the configs


def _deleted(result: DeletableTopicResult, topic: TopicImage) -> None:
    """Answer a repeated request as the first one would have been."""
    result.name, result.topic_id = topic.name, topic.topic_id
    if result.error_code in _UNKNOWN_TOPIC:
        result.error_code, result.error_message = ErrorCode.NONE, None
