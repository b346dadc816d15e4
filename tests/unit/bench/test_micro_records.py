"""The micro benchmark of records measures work that is done, with every codec."""

from __future__ import annotations

import pytest

from bench.micro_records import LAYOUTS, figures, plain_encoder_agrees, read_all, table_of
from bmq.arrow_records.encoder import BatchFields, encode
from bmq.protocol.compression import Compression

pytestmark = pytest.mark.campaign("unit")


@pytest.mark.parametrize("codec", list(Compression))
def test_every_kind_of_work_has_a_figure(codec: Compression) -> None:
    found = figures(100, 2_000, codec, 10_000, 1)
    assert {"crc", "encode", "clean", *LAYOUTS} <= found.keys()
    assert all(rate > 0 for rate in found.values())


def test_all_records_are_read() -> None:
    assert plain_encoder_agrees()
    table = table_of(100, 10_000)
    log = b"".join(encode(table, BatchFields(), batch_bytes_max=1_000))
    assert {read_all(log, layout) for layout in LAYOUTS.values()} == {table.num_rows}
