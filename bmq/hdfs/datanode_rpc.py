"""Calls to a DataNode's IPC port: how much of a replica can be read."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from bmq.hdfs.authentication import SimpleAuthentication
from bmq.hdfs.blocks import Block, DataNode
from bmq.hdfs.config import Address, HdfsConfig
from bmq.hdfs.errors import RemoteError, store_error
from bmq.hdfs.failover import new_client_id
from bmq.hdfs.proto.namenode_pb2 import GetReplicaVisibleLengthRequest, GetReplicaVisibleLengthResponse
from bmq.hdfs.rpc_endpoint import Call, Endpoint
from bmq.log.store import StorageUnavailable

CLIENT_DATANODE_PROTOCOL: Final = "org.apache.hadoop.hdfs.protocol.ClientDatanodeProtocol"
CONNECTIONS_MAX: Final = 256  # the most recently used are kept

_CALL_ID_MAX: Final = (1 << 31) - 1


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
        if self._is_closed:
            raise StorageUnavailable(f"{node.ipc}: the connections to the DataNodes were closed here")
        self._last_call_id = (self._last_call_id + 1) & _CALL_ID_MAX
        call = Call(
            self._last_call_id,
            "getReplicaVisibleLength",
            GetReplicaVisibleLengthRequest(block=block.message()),
            GetReplicaVisibleLengthResponse,
        )
        patience_s = self._config.rpc_timeout_s if timeout_s is None else timeout_s
        try:
            return (await self._endpoint(node.ipc).send(call, timeout_s=patience_s)).length
        except RemoteError as error:
            raise store_error(error, f"block {block.block_id} on {node.transfer}") from error

    def close(self) -> None:
        self._is_closed = True
        for endpoint in self._endpoints.values():
            endpoint.close()
        self._endpoints.clear()

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
