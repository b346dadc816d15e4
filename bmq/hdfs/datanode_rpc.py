"""Calls to a DataNode's IPC port: how much of a replica can be read, and in which files it lies."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from bmq.hdfs.authentication import SimpleAuthentication
from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import RemoteError, store_error
from bmq.hdfs.failover import new_client_id
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.namenode_pb2 import (
    GetBlockLocalPathInfoRequest,
    GetBlockLocalPathInfoResponse,
    GetReplicaVisibleLengthRequest,
    GetReplicaVisibleLengthResponse,
)
from bmq.hdfs.rpc_endpoint import Call, Endpoint
from bmq.log.store import StorageUnavailable

CLIENT_DATANODE_PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol"
CONNECTIONS_MAX: Final = 256  # the most recently used are kept

_CALL_ID_MAX: Final = (1 << 31) - 1
_NO_TOKEN: Final = Token(identifier=b"", password=b"", kind="", service="")

R = TypeVar("R", bound=Message)


class ReplicaFiles(NamedTuple):
    """Absolute paths on the DataNode's machine: the bytes of a replica, and their checksums."""

    data_path: str
    checksums_path: str


class DataNodeRpc:
    """Connections to the DataNodes asked lately. A call is tried once: there are other replicas to ask."""

    def __init__(self, config: HdfsConfig) -> None:
        self._config = config
        self._client_id = new_client_id()
        self._authentication = SimpleAuthentication(config.user)
        self._endpoints: OrderedDict[Address, Endpoint] = OrderedDict()
        self._last_call_id = -1
        self._is_closed = False

    async def visible_length(self, node: DataNode, block: Block, *, timeout_s: float | None = None) -> int:
        """How many bytes of the replica can be read: those acknowledged by the nodes behind this one in its pipeline.

        `timeout_s`: None is the configured one for calls. Raises StorageUnavailable, ReplicaMissing.
        """
        request = GetReplicaVisibleLengthRequest(block=block.message())
        answer = await self._call(
            node, block, "getReplicaVisibleLength", request, GetReplicaVisibleLengthResponse, timeout_s
        )
        return answer.length

    async def files(self, node: DataNode, located: LocatedBlock, *, timeout_s: float) -> ReplicaFiles:
        """Where the replica lies on its DataNode's machine (getBlockLocalPathInfo, HDFS-2246).

        Raises StorageUnavailable, ReplicaMissing, PermissionRefused (we are not in `dfs.block.local-path-access.user`).
        """
        token = located.token if located.token.IsInitialized() else _NO_TOKEN
        request = GetBlockLocalPathInfoRequest(block=located.block.message(), token=token)
        answer = await self._call(
            node, located.block, "getBlockLocalPathInfo", request, GetBlockLocalPathInfoResponse, timeout_s
        )
        return ReplicaFiles(answer.local_path, answer.local_meta_path)

    def close(self) -> None:
        self._is_closed = True
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._endpoints.clear()

    async def _call(
        self, node: DataNode, block: Block, name: str, request: Message, answer: type[R], timeout_s: float | None
    ) -> R:
        if self._is_closed:
            raise StorageUnavailable(f"{node.ipc}: the connections to the DataNodes were closed here")
        self._last_call_id = (self._last_call_id + 1) & _CALL_ID_MAX
        call = Call(self._last_call_id, name, request, answer)
        patience_s = self._config.rpc_timeout_s if timeout_s is None else timeout_s
        try:
            return await self._endpoint(node.ipc).send(call, timeout_s=patience_s)
        except RemoteError as error:
            raise store_error(error, f"block {block.block_id} on {node.transfer}") from error

    def _endpoint(self, address: Address) -> Endpoint:
        endpoint = self._endpoints.get(address)
        if endpoint is None:
            self._make_room()
            endpoint = self._endpoints[address] = Endpoint(
                address,
                CLIENT_DATANODE_PROTOCOL,
                self._authentication,
                client_id=self._client_id,
                connect_timeout_s=self._config.connect_timeout_s,
                silence_max_s=0.9 * self._config.rpc_timeout_s,
            )
        self._endpoints.move_to_end(address)
        return endpoint

    def _make_room(self) -> None:
        if len(self._endpoints) < CONNECTIONS_MAX:
            return
        idle = next((address for address, endpoint in self._endpoints.items() if endpoint.is_idle), None)
        if idle is None:
            raise StorageUnavailable(f"calls to {CONNECTIONS_MAX} DataNodes are under way already")
        self._endpoints.pop(idle).close()
