"""Calls to a DataNode's IPC port: a replica's readable length, its files, and its block recovery."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from typing import Final, NamedTuple, TypeVar

from google.protobuf.message import Message

from bmq.hdfs.blocks import Block, DataNode, LocatedBlock
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import RemoteError, store_error
from bmq.hdfs.failover import new_client_id
from bmq.hdfs.proto.hdfs_pb2 import LocatedBlock as LocatedBlockMessage
from bmq.hdfs.proto.hdfs_pb2 import Token
from bmq.hdfs.proto.namenode_pb2 import (
    GetBlockLocalPathInfoRequest,
    GetBlockLocalPathInfoResponse,
    GetReplicaVisibleLengthRequest,
    GetReplicaVisibleLengthResponse,
    InitReplicaRecoveryRequest,
    InitReplicaRecoveryResponse,
    RecoveringBlock,
    UpdateReplicaUnderRecoveryRequest,
    UpdateReplicaUnderRecoveryResponse,
)
from bmq.hdfs.rpc_endpoint import Call, Endpoint
from bmq.hdfs.server_logins import DataNodeLogins
from bmq.log.store import StorageUnavailable

CLIENT_DATANODE_PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol"
INTER_DATANODE_PROTOCOL: Final = "org.apache.hadoop.hdfs.server.protocol.InterDatanodeProtocol"
CONNECTIONS_MAX: Final = 256  # the most recently used are kept

_CALL_ID_MAX: Final = (1 << 31) - 1
_NO_TOKEN: Final = Token(identifier=b"", password=b"", kind="", service="")

R = TypeVar("R", bound=Message)
EndpointKey = tuple[Address, str, bytes]  # which protocol, and which token logs in


class ReplicaFiles(NamedTuple):
    """Absolute paths on the DataNode's machine of a replica's bytes and of their checksums."""

    data_path: str
    checksums_path: str


class DataNodeRpc:
    """Keeps connections to recently asked DataNodes. A call is tried once, because other replicas can be asked."""

    def __init__(self, config: HdfsConfig) -> None:
        self._config = config
        self._client_id = new_client_id()
        self._logins = DataNodeLogins(config)
        self._endpoints: OrderedDict[EndpointKey, Endpoint] = OrderedDict()
        self._last_call_id = -1
        self._is_closed = False

    async def visible_length(self, node: DataNode, block: Block, *, timeout_s: float | None = None) -> int:
        """How many bytes of the replica can be read: those acknowledged by the nodes behind this one in its pipeline.

        `timeout_s`: None for the configured one. Raises StorageUnavailable, ReplicaMissing.
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

    async def init_recovery(self, node: DataNode, block: Block) -> int | None:
        """Begin to give the node's replica the stamp of `block`. Returns the replica's length in bytes; None if the node has
        none.

        A writer that still writes to the replica is cut off. Raises StorageUnavailable; another StoreError when the replica
        has that stamp already, or is being given it.
        """
        # Of whatever older stamp it is: the node refuses if it is asked for a newer one than it has.
        any_older = LocatedBlockMessage(
            block=replace(block, generation_stamp=0, length_bytes=0).message(),
            offset=0,
            corrupt=False,
            block_token=_NO_TOKEN,
        )
        request = InitReplicaRecoveryRequest(
            block=RecoveringBlock(new_generation_stamp=block.generation_stamp, block=any_older)
        )
        answer = await self._call(
            node,
            block,
            "initReplicaRecovery",
            request,
            InitReplicaRecoveryResponse,
            protocol_name=INTER_DATANODE_PROTOCOL,
        )
        return answer.block.num_bytes if answer.is_found else None

    async def end_recovery(self, node: DataNode, block: Block) -> None:
        """After `init_recovery`: the replica gets the stamp and the length of `block`, is finalized, and reported.

        Raises StorageUnavailable; another StoreError when it is too short or was not begun.
        """
        request = UpdateReplicaUnderRecoveryRequest(
            block=block.message(),
            recovery_id=block.generation_stamp,
            new_length=block.length_bytes,
            new_block_id=block.block_id,
        )
        await self._call(
            node,
            block,
            "updateReplicaUnderRecovery",
            request,
            UpdateReplicaUnderRecoveryResponse,
            protocol_name=INTER_DATANODE_PROTOCOL,
        )

    def close(self) -> None:
        self._is_closed = True
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._endpoints.clear()

    async def _call(
        self,
        node: DataNode,
        block: Block,
        name: str,
        request: Message,
        answer: type[R],
        timeout_s: float | None = None,
        *,
        protocol_name: str = CLIENT_DATANODE_PROTOCOL,
    ) -> R:
        if self._is_closed:
            raise StorageUnavailable(f"{node.ipc}: the connections to the DataNodes were closed here")
        self._last_call_id = (self._last_call_id + 1) & _CALL_ID_MAX
        call = Call(self._last_call_id, name, request, answer)
        patience_s = self._config.rpc_timeout_s if timeout_s is None else timeout_s
        # InterDatanodeProtocol is for servers: no block's token lets us in.
        token = block.read_token if protocol_name == CLIENT_DATANODE_PROTOCOL else None
        try:
            return await self._endpoint(node, protocol_name, token).send(call, timeout_s=patience_s)
        except RemoteError as error:
            raise store_error(error, f"block {block.block_id} on {node.transfer}") from error

    def _endpoint(self, node: DataNode, protocol_name: str, token: Token | None) -> Endpoint:
        """A connection is logged in by the token of one block; where tokens are off, one serves all blocks."""
        key = node.ipc, protocol_name, b"" if token is None else token.identifier
        endpoint = self._endpoints.get(key)
        if endpoint is None:
            self._make_room()
            endpoint = self._endpoints[key] = Endpoint(
                node.ipc,
                protocol_name,
                self._logins.of(node.message.id.host_name, token),
                client_id=self._client_id,
                connect_timeout_s=self._config.connect_timeout_s,
                silence_max_s=0.9 * self._config.rpc_timeout_s,
            )
        self._endpoints.move_to_end(key)
        return endpoint

    def _make_room(self) -> None:
        if len(self._endpoints) < CONNECTIONS_MAX:
            return
        idle = next((key for key, endpoint in self._endpoints.items() if endpoint.is_idle), None)
        if idle is None:
            raise StorageUnavailable(f"calls to {CONNECTIONS_MAX} DataNodes are under way already")
        self._endpoints.pop(idle).close()
