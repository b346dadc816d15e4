"""The same data over several connections, signed for all of them at once: each peer takes it as signed for it alone."""

from __future__ import annotations

import asyncio
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.sasl import signatures_native, signatures_twin
from bmq.hdfs.sasl.digest_md5 import MESSAGE_BYTES_MORE, DigestLayer
from bmq.hdfs.sasl.secured_transport import SecuredTransport, write_alike
from bmq.hdfs.sasl.transfer_codecs import AesCtrCodec, FramedCodec, TransferCodec

pytestmark = pytest.mark.unit

AES = {"out_key": b"o" * 16, "out_iv": b"p" * 16, "in_key": b"i" * 16, "in_iv": b"j" * 16}
PEERS_AES = {"out_key": b"i" * 16, "out_iv": b"j" * 16, "in_key": b"o" * 16, "in_iv": b"p" * 16}


@pytest.mark.parametrize("maker", [signatures_native.signatures, signatures_twin.signatures])
@given(
    entries=st.lists(st.tuples(st.binary(min_size=16, max_size=16), st.binary(min_size=4, max_size=4)), max_size=9),
    data=st.binary(max_size=400),
)
def test_signatures_are_those_of_the_library(maker, entries: list[tuple[bytes, bytes]], data: bytes) -> None:  # type: ignore[no-untyped-def]
    keys, heads = b"".join(key for key, _ in entries), b"".join(head for _, head in entries)
    expected = b"".join(hmac.digest(key, head + data, "md5") for key, head in entries)
    for buffer in (data, bytearray(data), memoryview(data)):
        assert maker(keys, heads, buffer) == expected


@pytest.mark.parametrize("maker", [signatures_native.signatures, signatures_twin.signatures])
@pytest.mark.parametrize(("keys_bytes", "heads_bytes"), [(15, 4), (16, 3), (16, 8), (32, 4), (0, 4)])
def test_as_many_keys_as_heads(maker, keys_bytes: int, heads_bytes: int) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=f"keys of {keys_bytes} bytes"):
        maker(bytes(keys_bytes), bytes(heads_bytes), b"data")


class Wire(asyncio.Transport):
    """Keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()
        self.is_closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.is_closed
        self.sent += data

    def writelines(self, list_of_data) -> None:  # type: ignore[no-untyped-def]
        for data in list_of_data:
            self.write(data)

    def is_closing(self) -> bool:
        return self.is_closed


class Ends:
    """A connection and its other end. `kind`: how it is protected, "" not at all; `bytes_max`: of a message."""

    def __init__(self, kind: str, secret: bytes, bytes_max: int) -> None:
        self.wire = Wire()
        self.transport: asyncio.Transport = self.wire
        self._peer: TransferCodec | None = None
        if kind == "aes":
            self.transport, self._peer = SecuredTransport(self.wire, AesCtrCodec(**AES)), AesCtrCodec(**PEERS_AES)
        elif kind:
            made = [
                DigestLayer(secret, is_sealed=kind == "sealed", peer_bytes_max=bytes_max, is_client=is_client)
                for is_client in (True, False)
            ]
            self.transport, self._peer = SecuredTransport(self.wire, FramedCodec(made[0])), FramedCodec(made[1])

    def received(self) -> bytes:
        sent = bytes(self.wire.sent)
        return sent if self._peer is None else self._peer.decode(sent)


@given(
    kinds=st.lists(st.sampled_from(["signed", "sealed", "aes", ""]), min_size=1, max_size=6),
    bytes_max=st.lists(st.integers(MESSAGE_BYTES_MORE + 1, 200), min_size=6, max_size=6),
    written=st.lists(
        st.tuples(st.sets(st.integers(0, 5)), st.lists(st.binary(max_size=150), max_size=4)), min_size=1, max_size=5
    ),
)
def test_each_peer_gets_what_was_written(
    kinds: list[str], bytes_max: list[int], written: list[tuple[set[int], list[bytes]]]
) -> None:
    """Some connections are written to alone meanwhile, so that their messages have other numbers."""
    ends = [Ends(kind, bytes((number,)) * 16, bytes_max[number]) for number, kind in enumerate(kinds)]
    expected = [b"" for _ in ends]
    for alone, pieces in written:
        whole = b"".join(pieces)
        for number in alone & set(range(len(ends))):
            ends[number].transport.writelines([b"alone", whole])
            expected[number] += b"alone" + whole
        write_alike([end.transport for end in ends], [memoryview(bytearray(piece)) for piece in pieces])
        expected = [before + whole for before in expected]
    assert [end.received() for end in ends] == expected


def test_a_closed_connection_is_left_out() -> None:
    ends = [Ends("signed", bytes((number,)) * 16, 65_536) for number in range(3)]
    ends[1].wire.is_closed = True
    write_alike([end.transport for end in ends], [b"packet" * 20_000])
    assert [end.received() for end in ends] == [b"packet" * 20_000, b"", b"packet" * 20_000]
