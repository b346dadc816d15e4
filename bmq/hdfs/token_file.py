"""The file in which Hadoop gives a job its tokens, named by HADOOP_TOKEN_FILE_LOCATION. Pure.

"HDTS", a version (0: Writable, 1: protobuf), then the tokens. Source: Credentials.writeTokenStorageFile.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from google.protobuf.message import DecodeError

from bmq.hdfs.delegation_token import KIND, DelegationToken
from bmq.hdfs.delimited import read_delimited
from bmq.hdfs.proto.hdfs_pb2 import Credentials, Token
from bmq.hdfs.writable import read_vlong

FILE_VARIABLE: Final = "HADOOP_TOKEN_FILE_LOCATION"
FILE_BYTES_MAX: Final = 1 << 20
_MAGIC: Final = b"HDTS"
_WRITABLE: Final = 0
_PROTOBUF: Final = 1
_LENGTH_MAX: Final = 1 << 16


class BadTokenFile(ValueError):
    """A file of tokens is cut off, or of a form that Hadoop does not write; one clause."""


def token_in_file(data: bytes, services: Collection[str]) -> DelegationToken | None:
    """The HDFS token in a file of tokens, None without one. Raises BadTokenFile.

    `services`: the services of our NameNodes, HOST:PORT, ADDRESS:PORT or ha-hdfs:NAMESERVICE. They decide between several
    tokens; a single token is taken whatever its service is.
    """
    found = [token for token in _tokens(data) if token.kind == KIND]
    if len(found) > 1:
        found = [token for token in found if token.service in services]
    return DelegationToken(found[0].identifier, found[0].password) if found else None


def _tokens(data: bytes) -> list[Token]:
    if data[: len(_MAGIC)] != _MAGIC or len(data) <= len(_MAGIC):
        raise BadTokenFile("does not begin as Hadoop's files of tokens do")
    version, body = data[len(_MAGIC)], data[len(_MAGIC) + 1 :]
    if version == _PROTOBUF:
        try:
            encoded, _ = read_delimited(body, 0)
            return [entry.token for entry in Credentials.FromString(encoded).tokens]
        except (DecodeError, ValueError) as error:
            raise BadTokenFile("is damaged") from error
    if version != _WRITABLE:
        raise BadTokenFile(f"has the form {version}, which bmq does not know")
    return _Writable(body).tokens()


class _Writable:
    """Reads the format of Credentials.write (DataOutput): counts and lengths are WritableUtils' vints."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def tokens(self) -> list[Token]:
        found = []
        for _ in range(self._number()):
            self._bytes()  # the alias
            identifier, password = self._bytes(), self._bytes()
            kind, service = self._bytes().decode("utf-8", "replace"), self._bytes().decode("utf-8", "replace")
            found.append(Token(identifier=identifier, password=password, kind=kind, service=service))
        return found

    def _bytes(self) -> bytes:
        return self._take(self._number())

    def _number(self) -> int:
        """Read a length."""
        found = read_vlong(self._data, self._position)
        if found is None:
            raise BadTokenFile("is cut off, or has a length that cannot be")
        number, self._position = found
        if number > _LENGTH_MAX:
            raise BadTokenFile("has a length that no token has")
        return number

    def _take(self, length: int) -> bytes:
        taken = self._data[self._position : self._position + length]
        if len(taken) < length:
            raise BadTokenFile("is cut off")
        self._position += length
        return taken
