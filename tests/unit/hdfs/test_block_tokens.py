"""When block tokens expire, in both forms that Hadoop writes, and locations that are not used past that."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.hdfs.block_cache import TOKEN_MARGIN_MS, BlockCache, FileExtents
from bmq.hdfs.block_tokens import expiry_ms
from bmq.hdfs.blocks import FileBlocks, LocatedBlock
from bmq.hdfs.proto.hdfs_pb2 import BlockTokenSecret, ExtendedBlock, Token
from bmq.hdfs.proto.hdfs_pb2 import LocatedBlock as LocatedBlockMessage

pytestmark = pytest.mark.unit


def token_of(identifier: bytes) -> Token:
    return Token(identifier=identifier, password=b"p", kind="HDFS_BLOCK_TOKEN", service="")


def writable(expiry: int) -> bytes:
    """WritableUtils.writeVLong."""
    if expiry <= 127:
        return bytes([expiry])
    size_bytes = (expiry.bit_length() + 7) // 8
    return bytes([256 - 112 - size_bytes]) + expiry.to_bytes(size_bytes, "big")


@given(st.integers(128, (1 << 63) - 1), st.binary(max_size=20))
def test_the_expiry_of_a_writable(expiry: int, rest: bytes) -> None:
    assert expiry_ms(token_of(writable(expiry) + rest)) == expiry


def test_the_expiry_of_a_message() -> None:
    assert expiry_ms(token_of(BlockTokenSecret(expiry_date=1_800_000_000_000, key_id=1).SerializeToString())) == (
        1_800_000_000_000
    )


@given(st.binary(max_size=12))
def test_no_identifier_breaks_it(identifier: bytes) -> None:
    expiry = expiry_ms(token_of(identifier))
    assert expiry is None or expiry > 0


def file_with(*tokens: Token) -> FileBlocks:
    blocks = tuple(
        LocatedBlock.of(
            LocatedBlockMessage(
                block=ExtendedBlock(pool_id="p", block_id=index, generation_stamp=1, num_bytes=10),
                offset=10 * index,
                corrupt=False,
                block_token=token,
            )
        )
        for index, token in enumerate(tokens)
    )
    return FileBlocks(10 * len(tokens), False, blocks, blocks[-1], True)


def test_locations_are_used_until_their_first_token_expires() -> None:
    now_ms = [0]
    cache = BlockCache(now_ms=lambda: now_ms[0])
    extents = FileExtents(file_with(token_of(writable(2_000_000)), token_of(writable(1_000_000))))
    cache.put(7, extents)
    now_ms[0] = 1_000_000 - TOKEN_MARGIN_MS - 1
    assert cache.get(7) is extents
    now_ms[0] += 1
    assert cache.get(7) is None
    assert len(cache) == 0


def test_locations_without_tokens_are_used_for_ever() -> None:
    cache = BlockCache(now_ms=lambda: 1 << 62)
    extents = FileExtents(file_with(token_of(b"")))
    cache.put(7, extents)
    assert cache.get(7) is extents


def test_a_new_stamp_keeps_the_right_to_read() -> None:
    """The NameNode gives the right to write alone along with a stamp."""
    read = LocatedBlock.of(_message(token_of(b"read")))
    bumped = LocatedBlock.of(_message(token_of(b"write"))).with_read_token(read.block)
    assert bumped.token.identifier == b"write"
    assert bumped.block.read_token == read.token
    assert bumped.for_reading(read.block).token == read.token


def test_blocks_without_tokens_are_unchanged() -> None:
    open_block = LocatedBlock.of(_message(token_of(b"")))
    assert open_block.block.read_token is None
    assert open_block.for_reading(open_block.block) is open_block


def _message(token: Token) -> LocatedBlockMessage:
    block = ExtendedBlock(pool_id="p", block_id=1, generation_stamp=1)
    return LocatedBlockMessage(block=block, offset=0, corrupt=False, block_token=token)
