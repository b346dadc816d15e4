"""Lanes of batches that are being produced: bad ones are named, records without one are stamped."""

from __future__ import annotations

from random import Random

import pytest

from bmq.log import opened_batch
from bmq.log.lanes.produced_batch import refused_lanes, stamped
from bmq.log.opened_batch import BatchTooLong
from bmq.protocol.batch_records import Record, decode_records, encode_batch
from bmq.protocol.compression import Compression
from bmq.protocol.record_batch import BatchHeader, verify_crc

pytestmark = pytest.mark.unit

NAME = b"x-lane"
Headers = tuple[tuple[str, bytes | None], ...]


def produced(*headers: Headers, codec: Compression = Compression.NONE) -> tuple[memoryview, BatchHeader]:
    records = [Record(b"k", b"v%d" % number, one, timestamp_ms=1000 + number) for number, one in enumerate(headers)]
    data = memoryview(encode_batch(records, compression=codec, producer_id=7, producer_epoch=2, base_sequence=40))
    return data, BatchHeader.parse(data)


def test_records_with_a_bad_lane_are_named_alone() -> None:
    batch, header = produced(
        (("x-lane", b"blue"),),
        (("x-lane", b"a@b"),),
        (),
        (("x-lane", b"a/b"),),
        (("x-lane", b"blue"), ("x-lane", b"red")),
        (("x-lane", b"blue,red"),),
        (("baggage", b"x-lane=blue,x-lane=red"),),
        (("x-lane", "blåu".encode()),),
        (("x-lane", b"x" * 65),),
        (("x-lane", b""),),
        (("x-lane", None),),
        (("baggage", b"x-lane=blue"),),
    )
    refused = refused_lanes(batch, header, NAME)
    assert [one.batch_index for one in refused] == [1, 3, 4, 5, 6, 7, 8]
    assert all(0 < len(one.reason) < 300 and "\n" not in one.reason for one in refused)


@pytest.mark.parametrize("codec", list(Compression))
def test_records_without_a_lane_get_one(codec: Compression) -> None:
    headers: list[Headers] = [(), (("h", b"1"), ("g", None)), (("x-lane", b"red"),), (("baggage", b"x-lane=red"),)]
    headers += [(("x-lane", b"a@b"),), (("x-lane", b""),), (("baggage", b"other=1"),)]
    batch, header = produced(*headers, codec=codec)
    again = stamped(batch, header, NAME, "blue")
    assert again is not None
    found = BatchHeader.parse(again)
    verify_crc(again, 0, found)
    assert found._replace(length=header.length, crc=header.crc) == header
    records, before = decode_records(again), decode_records(batch)
    own = (("x-lane", b"blue"),)
    expected = [(*one, *own) if number in {0, 1, 5, 6} else one for number, one in enumerate(headers)]
    assert [record.headers for record in records] == expected
    assert [record._replace(headers=()) for record in records] == [record._replace(headers=()) for record in before]


def test_batch_whose_records_have_lanes_stays() -> None:
    assert stamped(*produced((("x-lane", b"red"),), (("x-lane", b"@"),)), NAME, "blue") is None


def test_random_batches_are_stamped_in_all_and_nothing_else() -> None:
    rng = Random(5)
    for _ in range(60):
        headers: list[Headers] = []
        for _ in range(rng.randint(1, 40)):
            names = rng.choices(["a", "x-lane", "b" * 200, "x-lan"], k=rng.choice([0, 1, 2, 130]))
            headers.append(tuple((name, rng.choice([None, b"", b"blue", b"v" * 300])) for name in names))
        batch, header = produced(*headers, codec=rng.choice(list(Compression)))
        again = stamped(batch, header, NAME, "green")
        records = decode_records(batch if again is None else again)
        for was, record in zip(headers, records, strict=True):
            has_lane = any(name == "x-lane" and value for name, value in was)
            assert record.headers == (was if has_lane else (*was, ("x-lane", b"green")))


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lane: Headers = (("x-lane", b"blue"),)
    monkeypatch.setattr(opened_batch, "RECORDS_MAX", 3)
    with pytest.raises(BatchTooLong, match="4 records"):
        refused_lanes(*produced(*[lane] * 4), NAME)
    with pytest.raises(BatchTooLong, match="4 records"):
        stamped(*produced(*[()] * 4), NAME, "blue")
    assert refused_lanes(*produced(*[(("h", b"v"),)] * 4), NAME) == [], "nothing of lanes in it"
    monkeypatch.setattr(opened_batch, "HEADERS_MAX", 3)
    with pytest.raises(BatchTooLong, match="4 headers"):
        refused_lanes(*produced(lane * 4), NAME)
    monkeypatch.setattr(opened_batch, "OPENED_BYTES_MAX", 100)
    with pytest.raises(BatchTooLong, match="100"):
        stamped(*produced((("h", b"v" * 200),), codec=Compression.ZSTD), NAME, "blue")
