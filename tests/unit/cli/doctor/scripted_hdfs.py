"""A NameNode that tells how its HDFS is, as a test wants it to be, by Hadoop's own RPC."""

from __future__ import annotations

from dataclasses import dataclass, field

from bmq.hdfs.proto.hdfs_pb2 import DatanodeId, DatanodeInfo
from bmq.hdfs.proto.namenode_pb2 import GetFileInfoResponse
from bmq.hdfs.proto.report_pb2 import (
    LIVE,
    SAFEMODE_GET,
    GetDatanodeReportRequest,
    GetDatanodeReportResponse,
    GetFsStatsResponse,
    GetQuotaUsageRequest,
    GetQuotaUsageResponse,
    QuotaUsage,
    SetSafeModeRequest,
    SetSafeModeResponse,
)
from tests.fakes.hadoop_ipc import ReceivedCall

GIB = 1 << 30
LONG_MAX = (1 << 63) - 1
NO_QUOTA = (1 << 64) - 1


@dataclass
class ScriptedHdfs:
    """`script` answers the calls. `heard_ms`: the last heartbeat of each live DataNode, by the NameNode's clock."""

    is_in_safe_mode: bool = False
    is_standby: bool = False
    remaining_bytes: int = 50 * GIB
    missing_blocks: int = 0
    under_replicated: int = 0
    quota: int = LONG_MAX
    space_quota: int = NO_QUOTA
    space_consumed: int = 3 * GIB
    heard_ms: tuple[int, ...] = (1_000_000, 1_000_000, 1_000_000)
    is_superuser: bool = True
    silent: set[str] = field(default_factory=set)

    def script(self, call: ReceivedCall) -> None:
        if call.method in self.silent:
            return
        if call.method == "setSafeMode":
            assert call.request(SetSafeModeRequest).action == SAFEMODE_GET
            call.answer(SetSafeModeResponse(result=self.is_in_safe_mode))
        elif self.is_standby:
            call.refuse("org.apache.hadoop.ipc.StandbyException", "Operation category READ is not supported")
        elif call.method == "getFsStats":
            used = 100 * GIB - self.remaining_bytes
            call.answer(
                GetFsStatsResponse(
                    capacity=100 * GIB,
                    used=used,
                    remaining=self.remaining_bytes,
                    under_replicated=self.under_replicated,
                    corrupt_blocks=0,
                    missing_blocks=self.missing_blocks,
                )
            )
        elif call.method == "getQuotaUsage":
            assert call.request(GetQuotaUsageRequest).path == "/bmq"
            call.answer(
                GetQuotaUsageResponse(
                    usage=QuotaUsage(
                        file_and_directory_count=120,
                        quota=self.quota,
                        space_consumed=self.space_consumed,
                        space_quota=self.space_quota,
                    )
                )
            )
        elif call.method == "getDatanodeReport":
            assert call.request(GetDatanodeReportRequest).type == LIVE
            self._list_datanodes(call)
        else:
            call.answer(GetFileInfoResponse())  # the root is not there yet

    def _list_datanodes(self, call: ReceivedCall) -> None:
        if not self.is_superuser:
            call.refuse("org.apache.hadoop.security.AccessControlException", "Access denied for user bmq")
            return
        nodes = [
            DatanodeInfo(
                id=DatanodeId(
                    ip_addr="10.0.0.1",
                    host_name=f"d{number}",
                    datanode_uuid=str(number),
                    xfer_port=9866,
                    info_port=1,
                    ipc_port=2,
                ),
                capacity=10 * GIB,
                remaining=5 * GIB,
                last_update=heard_ms,
            )
            for number, heard_ms in enumerate(self.heard_ms, 1)
        ]
        call.answer(GetDatanodeReportResponse(di=nodes))
