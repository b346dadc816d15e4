"""How an HDFS is, as each of its NameNodes tells it: safe mode, space, blocks, quota, DataNodes. For commands; no server asks.

Each NameNode is asked once, on a connection of its own and without failover, so that one that hangs delays no other.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from typing import Final

from google.protobuf.message import Message

from bmq.hdfs.cluster_state import HdfsQuota, HdfsSpace, LiveDataNode, NameNodeReport
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import CallTimedOut, RemoteError, is_standby, store_error
from bmq.hdfs.failover import CLIENT_PROTOCOL, new_client_id
from bmq.hdfs.proto.report_pb2 import (
    LIVE,
    SAFEMODE_GET,
    GetDatanodeReportRequest,
    GetDatanodeReportResponse,
    GetFsStatsRequest,
    GetFsStatsResponse,
    GetQuotaUsageRequest,
    GetQuotaUsageResponse,
    SetSafeModeRequest,
    SetSafeModeResponse,
)
from bmq.hdfs.rpc import RpcConnection
from bmq.hdfs.rpc_codec import M
from bmq.hdfs.server_logins import namenode_authentication
from bmq.log.store import StoreError

_ANSWERS: Final = 4
LONG_MAX: Final = (1 << 63) - 1
"""The quota of names that the root of a file system has, as long as nobody sets one."""


async def namenode_reports(
    config: HdfsConfig, *, limit_s: float, elapsed_s: Callable[[], float] = time.monotonic
) -> tuple[NameNodeReport, ...]:
    """The report of each NameNode of `config`, all asked at once, `limit_s` for each of its answers. Raises BadSecurity."""
    authentication = namenode_authentication(config)

    async def report(address: Address) -> NameNodeReport:
        try:
            async with asyncio.timeout(_ANSWERS * limit_s):
                connection = await RpcConnection.open(
                    address,
                    CLIENT_PROTOCOL,
                    authentication,
                    client_id=new_client_id(),
                    timeout_s=min(limit_s, config.connect_timeout_s),
                )
                try:
                    return await _Asked(connection, address, limit_s, elapsed_s).report(config.root)
                finally:
                    connection.close()
        except TimeoutError:
            return NameNodeReport(address, f"{address} does not answer within {_ANSWERS * limit_s:g} s")
        except (StoreError, RemoteError) as error:
            return NameNodeReport(address, str(error))

    return tuple(await asyncio.gather(*(report(address) for address in config.namenodes)))


class _Asked:
    """One NameNode, on one connection."""

    def __init__(
        self, connection: RpcConnection, address: Address, limit_s: float, elapsed_s: Callable[[], float]
    ) -> None:
        self._connection = connection
        self._address = address
        self._limit_s = limit_s
        self._elapsed_s = elapsed_s
        self._call_ids = itertools.count()

    async def report(self, root: str) -> NameNodeReport:
        """Raises RemoteError, StoreError."""
        began_s = self._elapsed_s()
        # Unchecked: a standby, too, tells its own state then.
        safe = await self._call("setSafeMode", SetSafeModeRequest(action=SAFEMODE_GET), SetSafeModeResponse)
        answer_s = self._elapsed_s() - began_s
        try:
            stats = await self._call("getFsStats", GetFsStatsRequest(), GetFsStatsResponse)
        except RemoteError as error:
            if not is_standby(error):
                raise
            return NameNodeReport(self._address, answer_s=answer_s, is_in_safe_mode=safe.result)
        refusals: list[str] = []
        return NameNodeReport(
            self._address,
            answer_s=answer_s,
            is_in_safe_mode=safe.result,
            is_active=True,
            space=HdfsSpace(
                stats.capacity,
                stats.used,
                stats.remaining,
                stats.under_replicated,
                stats.corrupt_blocks,
                stats.missing_blocks,
            ),
            quota=await self._quota(root, refusals),
            datanodes=await self._datanodes(refusals),
            refusals=tuple(refusals),
        )

    async def _quota(self, root: str, refusals: list[str]) -> HdfsQuota | None:
        try:
            answer = await self._call("getQuotaUsage", GetQuotaUsageRequest(path=root), GetQuotaUsageResponse)
        except (RemoteError, CallTimedOut) as error:
            refusals.append(_sentence(error, root))
            return None
        usage = answer.usage
        return HdfsQuota(
            root,
            usage.file_and_directory_count,
            None if usage.quota >= LONG_MAX else usage.quota,
            usage.space_consumed,
            None if usage.space_quota >= LONG_MAX else usage.space_quota,
        )

    async def _datanodes(self, refusals: list[str]) -> tuple[LiveDataNode, ...] | None:
        """None: only superusers of HDFS are told."""
        try:
            answer = await self._call(
                "getDatanodeReport", GetDatanodeReportRequest(type=LIVE), GetDatanodeReportResponse
            )
        except (RemoteError, CallTimedOut) as error:
            refusals.append(_sentence(error, "the DataNodes"))
            return None
        return tuple(
            LiveDataNode(f"{one.id.host_name}:{one.id.xfer_port}", one.capacity, one.remaining, one.last_update)
            for one in answer.di
        )

    async def _call(self, method: str, request: Message, response_type: type[M]) -> M:
        return await self._connection.call(
            method, request, response_type, call_id=next(self._call_ids), retry_count=0, timeout_s=self._limit_s
        )


def _sentence(error: Exception, about: str) -> str:
    return str(store_error(error, about)) if isinstance(error, RemoteError) else str(error)
