"""A node's copy of the cluster's metadata: polled from the active controller, replayed by the code the controller uses.

Without an active controller the last image stays in force; nothing stops. A controller with a lower epoch than one seen
before is ignored (rule 17).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping
from random import Random
from uuid import UUID

import structlog

from bmq.election.election import ControllerClaim, MetadataMark
from bmq.internode_client.link import LinkLost
from bmq.internode_client.links import Links
from bmq.membership.known_controller import KnownController
from bmq.membership.settings import ClusterSettings
from bmq.metadata.broker_configs import BrokerConfigs
from bmq.metadata.history import StateChangeHistory
from bmq.metadata.image import MetadataImage
from bmq.metadata.state import MetadataState
from bmq.protocol.apis import ApiKey
from bmq.protocol.batch_records import decode_records
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.internal_messages import MetadataFetchRequest, MetadataFetchResponse
from bmq.protocol.metadata_records import decode_record
from bmq.protocol.record_batch import batches

LINK_PURPOSE = "metadata"
_ANSWER_GRACE_S = 2.0

_log = structlog.get_logger("bmq.membership")


class MetadataReplica:
    """`run` until cancelled. `on_image(old, new)` is called with each new image, on the event loop; it must not raise.

    `static_configs`: this node's own settings under Kafka's names.
    """

    def __init__(
        self,
        node_id: int,
        cluster_id: str,
        links: Links,
        known: KnownController,
        on_image: Callable[[MetadataImage, MetadataImage], None],
        static_configs: Mapping[str, str],
        settings: ClusterSettings,
        random: Random,
    ) -> None:
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._links = links
        self._known = known
        self._random = random
        self._on_image = on_image
        self._static_configs = static_configs
        self._settings = settings
        self._backoff = settings.retry_backoff(random)
        self._state = self._new_state()
        self._wake = asyncio.Event()
        self._heard_at_s = -math.inf
        self.offset = -1
        self.controller_epoch = -1
        self.image = MetadataImage(cluster_id=cluster_id)
        self.broker_configs: BrokerConfigs = self._state.broker_configs_of({})

    @property
    def history(self) -> StateChangeHistory:
        """Past and present leaders of each partition, up to `image`."""
        return self._state.history

    @property
    def seen(self) -> MetadataMark:
        """How far this copy goes, and its controller's epoch."""
        return MetadataMark(self.controller_epoch, self.offset)

    @property
    def is_current(self) -> bool:
        """A controller has answered lately: it answers polls in time as long as it lives."""
        wait_max_s = self._settings.metadata_wait_max_ms / 1000 + _ANSWER_GRACE_S
        return asyncio.get_running_loop().time() - self._heard_at_s <= wait_max_s

    @property
    def incarnation(self) -> UUID | None:
        """The process that is registered under this node's id, according to `image`; None: there is none."""
        known = self._state.registrations.get(self._node_id)
        return None if known is None else known.incarnation_id

    def leader_changed(self) -> None:
        """Look for the new controller at once instead of waiting for the end of a pause."""
        self._wake.set()

    async def run(self) -> None:
        """Poll for ever."""
        while True:
            claim = self._known.claim
            if claim is None or claim.epoch < self.controller_epoch or not await self._poll(claim):
                # We may be unable to reach the election or the controller while other nodes can.
                if not await self._ask_around():
                    await self._pause()
            else:
                self._backoff.reset()

    async def _poll(self, claim: ControllerClaim) -> bool:
        try:
            return self._take(await self._fetch(claim))
        except LinkLost:
            return False

    async def _ask_around(self) -> bool:
        """Ask another node for the active controller; whether that was news."""
        nodes = [node_id for node_id in self.image.nodes if node_id != self._node_id]
        if not nodes:
            return False
        request = MetadataFetchRequest(
            node_id=self._node_id,
            controller_epoch=self.controller_epoch,
            offset=self.offset,
            bytes_max=self._settings.metadata_fetch_bytes_max,
        )
        try:
            response: MetadataFetchResponse = await self._links.call(
                self._random.choice(nodes), ApiKey.METADATA_FETCH, request, timeout_s=_ANSWER_GRACE_S
            )
        except BmqError:
            return False
        return self._known.learn(response.controller_id, response.controller_epoch)

    async def _fetch(self, claim: ControllerClaim) -> MetadataFetchResponse:
        settings = self._settings
        link = await self._links.link(claim.node_id, LINK_PURPOSE)
        request = MetadataFetchRequest(
            node_id=self._node_id,
            controller_epoch=max(self.controller_epoch, claim.epoch),
            offset=self.offset,
            max_wait_ms=settings.metadata_wait_max_ms,
            bytes_max=settings.metadata_fetch_bytes_max,
            offset_epoch=self.controller_epoch,
        )
        call = asyncio.ensure_future(
            link.call(ApiKey.METADATA_FETCH, request, timeout_s=settings.metadata_wait_max_ms / 1000 + _ANSWER_GRACE_S)
        )
        changed = asyncio.ensure_future(self._until_other_than(claim))
        try:
            await asyncio.wait({call, changed}, return_when=asyncio.FIRST_COMPLETED)
            if not call.done():
                raise LinkLost(f"controller {claim.node_id} is not the active one any more")
            response: MetadataFetchResponse = call.result()
            return response
        finally:
            for task in (call, changed):
                if not task.done():
                    task.cancel()
            await asyncio.wait({call, changed})
            if not call.cancelled():
                call.exception()

    async def _until_other_than(self, claim: ControllerClaim) -> None:
        """Return when a higher controller epoch is known: a poll at a hung, replaced controller would take too long."""
        while True:
            # Check before waiting: it may have been replaced while the link to it was made.
            known = self._known.claim
            if known is not None and known.epoch > claim.epoch:
                return
            self._wake.clear()
            await self._wake.wait()

    async def _pause(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout(self._backoff.next_s()):
                await self._wake.wait()
        except TimeoutError:
            return
        self._backoff.reset()

    def _take(self, response: MetadataFetchResponse) -> bool:
        """Take a response in; whether to ask again at once."""
        if response.error_code != ErrorCode.NONE:
            if response.error_code != ErrorCode.NOT_CONTROLLER:
                _log.warning(
                    "metadata_fetch_failed",
                    error=ErrorCode(response.error_code).name,
                    message=response.error_message,
                )
            return False
        if response.controller_epoch < self.controller_epoch:
            _log.warning(
                "old_controller_ignored", controller_epoch=response.controller_epoch, newest=self.controller_epoch
            )
            return False
        self.controller_epoch = response.controller_epoch
        try:
            self._replay(response)
        except BmqError as error:
            # Records we cannot understand must not be half applied, so start again from a snapshot.
            _log.error("metadata_not_understood", error=str(error), offset=self.offset)
            self._state = self._new_state()
            self.offset = -1
            return False
        self._state.set_controller(response.controller_id)
        self._heard_at_s = asyncio.get_running_loop().time()
        self._publish()
        return True

    def _replay(self, response: MetadataFetchResponse) -> None:
        if response.is_snapshot:
            state = self._new_state()
            state.replay_snapshot(bytes(response.data))
            self._state = state
        else:
            for position, header in batches(response.data):
                if header.is_control or header.end_offset <= self.offset:
                    continue
                for record in decode_records(response.data, position):
                    if record.offset >= self.offset:
                        self._state.replay(decode_record(record.value or b""))
        self.offset = max(response.end_offset, 0)

    def _publish(self) -> None:
        old, new = self.image, self._state.image_at(self.offset)
        if new is old:
            return
        self.image = new
        if new.broker_configs is not old.broker_configs:
            self.broker_configs = self._state.broker_configs_of(new.broker_configs)
        self._on_image(old, new)

    def _new_state(self) -> MetadataState:
        return MetadataState(self._cluster_id, self._node_id, self._static_configs)
