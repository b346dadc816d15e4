"""What an administrator does to a NameNode, for tests that need quotas, permissions, safe mode or a checkpoint.

These calls are made nowhere in bmq, so their messages are declared here.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, Self

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message

from bmq.hdfs.authentication import SimpleAuthentication
from bmq.hdfs.config import Address
from bmq.hdfs.failover import CLIENT_PROTOCOL
from bmq.hdfs.location import system_user
from bmq.hdfs.proto.hdfs_pb2 import FsPermission
from bmq.hdfs.proto.namenode_pb2 import MkdirsRequest, MkdirsResponse
from bmq.hdfs.rpc import RpcConnection

LEAVE_SAFE_MODE: Final = 1
ENTER_SAFE_MODE: Final = 2
UNCHANGED: Final = (1 << 63) - 1
CALL_WAIT_S: Final = 20.0

_STRING = descriptor_pb2.FieldDescriptorProto.TYPE_STRING
_UINT32 = descriptor_pb2.FieldDescriptorProto.TYPE_UINT32
_UINT64 = descriptor_pb2.FieldDescriptorProto.TYPE_UINT64


def _declared(**messages: dict[str, tuple[int, int]]) -> dict[str, type[Message]]:
    """Message classes from `name={field: (number, type)}`."""
    file = descriptor_pb2.FileDescriptorProto(name="tests/hdfs_admin.proto", package="tests", syntax="proto2")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            message.field.add(name=field, number=number, type=kind, label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"tests.{name}")) for name in messages}


_MESSAGES: Final = _declared(
    SetQuota={"path": (1, _STRING), "names": (2, _UINT64), "space_bytes": (3, _UINT64)},
    SetSafeMode={"action": (1, _UINT32)},
    SetOwner={"src": (1, _STRING), "user": (2, _STRING)},
    SaveNamespace={"time_window": (1, _UINT64)},
    Done={},
)


class HdfsAdmin:
    """The user who runs the NameNode, on one connection to it."""

    def __init__(self, connection: RpcConnection) -> None:
        self._connection = connection
        self._last_call_id = -1

    @classmethod
    @asynccontextmanager
    async def at(cls, namenode: Address) -> AsyncIterator[Self]:
        connection = await RpcConnection.open(
            namenode,
            CLIENT_PROTOCOL,
            SimpleAuthentication(system_user()),
            client_id=uuid.uuid4().bytes,
            timeout_s=CALL_WAIT_S,
        )
        try:
            yield cls(connection)
        finally:
            connection.close()

    async def make_directory(self, path: str) -> None:
        """And its parents."""
        request = MkdirsRequest(src=path, masked=FsPermission(perm=0o755), create_parent=True)
        await self._send("mkdirs", request, MkdirsResponse)

    async def set_quota(self, path: str, *, names: int = UNCHANGED, space_bytes: int = UNCHANGED) -> None:
        """`names`: how many files and directories, the directory itself included. `space_bytes`: of all replicas."""
        await self._call("setQuota", "SetQuota", path=path, names=names, space_bytes=space_bytes)

    async def enter_safe_mode(self) -> None:
        await self._call("setSafeMode", "SetSafeMode", action=ENTER_SAFE_MODE)

    async def leave_safe_mode(self) -> None:
        await self._call("setSafeMode", "SetSafeMode", action=LEAVE_SAFE_MODE)

    async def give(self, path: str, *, user: str) -> None:
        """Change the owner."""
        await self._call("setOwner", "SetOwner", src=path, user=user)

    async def checkpoint(self) -> None:
        """Write a new image of the namespace; a restart then reads no edits."""
        await self.enter_safe_mode()
        await self._call("saveNamespace", "SaveNamespace")
        await self.leave_safe_mode()

    async def _call(self, method: str, message: str, **fields: object) -> None:
        await self._send(method, _MESSAGES[message](**fields), _MESSAGES["Done"])

    async def _send(self, method: str, request: Message, response_type: type[Message]) -> None:
        self._last_call_id += 1
        await self._connection.call(
            method, request, response_type, call_id=self._last_call_id, retry_count=0, timeout_s=CALL_WAIT_S
        )
