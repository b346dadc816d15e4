"""The active controller's leadership: campaign for it, take the metadata log over, serve while it lasts, step down.

The election assigns an epoch, but a controller leads by owning the metadata log. Once fenced there it can write nothing
more, whatever it believes; while it owns the log it carries on even if ZooKeeper is away.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from bmq.aio.backoff import Backoff
from bmq.broker.manager import PartitionManager
from bmq.broker.partition_offline import PartitionOffline
from bmq.controller.runtime import Controller
from bmq.election.election import ControllerClaim, Election, ElectionError, Member, MetadataMark
from bmq.log.config import NEVER_MS, LogConfig
from bmq.log.damage import Damage, StateDamaged, is_accepted, require_accepted
from bmq.log.names import EpochListing, partition_directory
from bmq.log.partition_log import ReplayableLog, TopicPartition
from bmq.log.store import Durability, SegmentStore, StoreError
from bmq.membership.metadata_seen import NOTHING, Witness, missing_end
from bmq.metadata.image import METADATA_TOPIC_ID, METADATA_TOPIC_NAME
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError, KafkaError

METADATA: Final = TopicPartition(METADATA_TOPIC_ID, 0)
# Synced to disk: without the metadata, the topics' own logs on disk are of no use.
METADATA_LOG: Final = LogConfig(
    segment_bytes=64 * 1024 * 1024, retention_ms=-1, segment_idle_close_ms=NEVER_MS, durability=Durability.HSYNC
)
_PROOF_INTERVAL_S: Final = 1.0
_CAMPAIGN_CHECK_S: Final = 0.5
_DAMAGE_WAIT_S: Final = 60.0
_DAMAGE_CHECK_S: Final = 1.0

_log = structlog.get_logger("bmq.membership")


class ElectionBehindLog(BmqError):
    """ZooKeeper's counter is below what the metadata log was written under (rule 17)."""


async def _is_heard_by_nobody(claim: ControllerClaim) -> bool:
    return False


class ControllerLeadership:
    """`run` until cancelled, then `close`. `failed` gets an ElectionBehindLog: then an operator has to decide.

    `witnesses`: asks how much of the metadata log others have seen; without it only the election's mark counts.
    `make(log, epoch)`: builds a controller, not started, over a metadata log that is ours. `on_active(controller)`: a
    new one is active; None: it ended.
    """

    def __init__(
        self,
        election: Election,
        member: Member,
        manager: PartitionManager,
        store: SegmentStore,
        make: Callable[[ReplayableLog, int], Controller],
        on_active: Callable[[Controller | None], Awaitable[None]],
        backoff: Backoff,
        witnesses: Callable[[ControllerClaim], Awaitable[Sequence[Witness]]] | None = None,
    ) -> None:
        self._election = election
        self._member = member
        self._manager = manager
        self._store = store
        self._make = make
        self._on_active = on_active
        self._backoff = backoff
        self._witnesses = witnesses or self._only_the_mark
        self._may_campaign: Callable[[], bool] = lambda: True
        self._is_heard: Callable[[ControllerClaim], Awaitable[bool]] = _is_heard_by_nobody
        self._active: Controller | None = None
        self._marking: asyncio.Task[None] | None = None
        self._marked = NOTHING
        self._deposing: set[asyncio.Task[None]] = set()
        self.refused: Damage | None = None
        """Why the last try to activate the metadata log was refused (rule 25)."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def active(self) -> Controller | None:
        return self._active

    @property
    def epoch(self) -> int:
        return -1 if self._active is None else self._active.epoch

    def campaign_only_while(self, may_campaign: Callable[[], bool]) -> None:
        """Campaign only while this holds: a node that cannot write had better leave the leadership to others."""
        self._may_campaign = may_campaign

    def spare_while(self, is_heard: Callable[[ControllerClaim], Awaitable[bool]]) -> None:
        """Depose no controller of which this says that another node hears it."""
        self._is_heard = is_heard

    def suspect(self, claim: ControllerClaim) -> None:
        """The active controller seems to be dead: a candidate deposes it, unless another node hears it."""
        if (claim.node_id == self._member.node_id and self._active is not None) or self._deposing:
            return  # one at a time: while the election is unreachable each of them would wait
        task = asyncio.get_running_loop().create_task(self._depose(claim))
        self._deposing.add(task)
        task.add_done_callback(self._deposing.discard)

    async def run(self) -> None:
        """Campaign and lead, for ever."""
        while not self.failed.done():
            if not self._may_campaign():
                await asyncio.sleep(_CAMPAIGN_CHECK_S)
                continue
            try:
                claim = await self._election.campaign(self._member)
            except ElectionError as error:
                _log.warning("campaign_failed", reason=str(error))
                await self._backoff.pause()
                continue
            _log.info("controller_elected", node_id=claim.node_id, controller_epoch=claim.epoch)
            self.refused = None
            try:
                await self._lead(claim)
            except ElectionBehindLog as error:
                self.failed.set_exception(error)
            except (StateDamaged, PartitionOffline) as error:
                self.refused = error.damage
                _log.error("controller_not_activated", controller_epoch=claim.epoch, reason=str(error))
                if error.damage is None:
                    await self._backoff.pause()
            except BmqError as error:
                _log.warning("controller_not_started", controller_epoch=claim.epoch, reason=str(error))
                await self._backoff.pause()
            else:
                self._backoff.reset()
            finally:
                with contextlib.suppress(ElectionError):
                    await self._election.resign(claim)
            if self.refused is not None:
                await self._until_decided(self.refused)

    async def close(self) -> None:
        """Call after `run` was cancelled: ends its remaining tasks."""
        tasks = {*self._deposing, *(() if self._marking is None else (self._marking,))}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _until_decided(self, damage: Damage) -> None:
        """Wait until the damage is accepted, at most _DAMAGE_WAIT_S: each futile try makes a directory in the store."""
        until_s = asyncio.get_running_loop().time() + _DAMAGE_WAIT_S
        while asyncio.get_running_loop().time() < until_s:
            await asyncio.sleep(_DAMAGE_CHECK_S)
            with contextlib.suppress(StoreError):
                if await is_accepted(self._store, damage):
                    return

    async def _only_the_mark(self, claim: ControllerClaim) -> Sequence[Witness]:
        mark = await self._election.metadata_mark()
        return () if mark is None else (Witness("ZooKeeper", mark),)

    async def _lead(self, claim: ControllerClaim) -> None:
        """Lead until the leadership or the log is lost. Raises ElectionBehindLog, KafkaError, StoreError."""
        lost = asyncio.get_running_loop().create_future()
        self._election.on_lost(claim, lambda: None if lost.done() else lost.set_result(None))
        await self._check_epoch(claim, lost)
        # Ask while the log is being taken over. Records that a node gets meanwhile are in the log, or nobody acted on
        # them.
        asking = asyncio.ensure_future(self._witnesses(claim))
        self._manager.assign(METADATA, claim.epoch, METADATA_TOPIC_NAME, METADATA_LOG)
        controller: Controller | None = None
        try:
            log = await self._manager.leader_of(METADATA)
            lost_records = await self._accepted_loss(log, await asking)
            controller = self._make(log, claim.epoch)
            await controller.start(lost_records)
            self._active = controller
            await self._on_active(controller)
            await self._until_lost(controller, log, lost)
        finally:
            asking.cancel()
            await asyncio.wait({asking})
            if not asking.cancelled():
                asking.exception()
            self._active = None
            if controller is not None:
                await controller.close()
                await self._on_active(None)
            await self._manager.unassign(METADATA)
            _log.info("controller_ended", controller_epoch=claim.epoch)

    async def _accepted_loss(self, log: ReplayableLog, witnesses: Sequence[Witness]) -> int:
        """How many records the log lacks that a witness has seen. Raises StateDamaged unless that was accepted (rule 25)."""
        missing = missing_end(partition_directory(METADATA), log.epoch_end_offset, log.high_watermark, witnesses)
        if missing is None:
            return 0
        await require_accepted(self._store, missing.damage)
        return missing.records

    def _mark(self, log: ReplayableLog) -> None:
        """Note the log's end in the background: the mark may be late, never early."""
        mark = MetadataMark(log.leader_epoch, log.high_watermark)
        if mark != self._marked and (self._marking is None or self._marking.done()):
            self._marking = asyncio.get_running_loop().create_task(self._leave_mark(mark))

    async def _leave_mark(self, mark: MetadataMark) -> None:
        try:
            await self._election.raise_metadata_mark(mark)
        except ElectionError as error:
            _log.info("metadata_mark_not_saved", reason=str(error))
        else:
            self._marked = mark

    async def _check_epoch(self, claim: ControllerClaim, lost: asyncio.Future[None]) -> None:
        directory = partition_directory(METADATA)
        await self._store.make_directories(directory)
        listing = EpochListing.of(await self._store.list_directory(directory))
        highest = max(listing.open_epochs | listing.sealed_epochs, default=0)
        if highest < claim.epoch:
            return
        # If we were held up, a later controller may have replaced us; then the higher epoch is legitimate.
        counted = await self._election.raise_epoch(claim.epoch)
        leader = self._election.leader
        if lost.done() or counted != claim.epoch or (leader is not None and leader != claim):
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "a later controller has the metadata log already")
        raise ElectionBehindLog(
            f"ZooKeeper gave controller epoch {claim.epoch}, but the metadata log was written under epoch {highest}: "
            "ZooKeeper lost its data or is another cluster's. If it is the right one, run "
            f"`bmq cluster raise-epoch --to {highest} --zookeeper HOSTS --cluster-id ID` and start the controllers again"
        )

    async def _until_lost(self, controller: Controller, log: ReplayableLog, lost: asyncio.Future[None]) -> None:
        """Prove ownership at intervals: an idle controller writes nothing, so it would not notice that it is fenced."""
        gone = asyncio.ensure_future(controller.gone.wait())
        try:
            await self._until_any(controller, log, lost, gone)
        finally:
            gone.cancel()
            await asyncio.wait({gone})

    async def _until_any(
        self, controller: Controller, log: ReplayableLog, lost: asyncio.Future[None], gone: asyncio.Future[Any]
    ) -> None:
        while not lost.done() and not gone.done() and controller.newer_epoch <= controller.epoch:
            self._mark(log)
            await asyncio.wait({lost, gone}, timeout=_PROOF_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED)
            try:
                await log.prove_ownership()
            except BmqError as error:
                if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    _log.warning("metadata_log_lost", reason=str(error))
                    return

    async def _depose(self, claim: ControllerClaim) -> None:
        try:
            if await self._is_heard(claim) or self._election.leader != claim:
                return  # if its silence lasts, the next heartbeat suspects it again
            await self._election.depose(claim)
        except ElectionError as error:
            _log.warning("controller_not_deposed", controller_epoch=claim.epoch, reason=str(error))
