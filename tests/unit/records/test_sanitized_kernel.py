"""The kernel under AddressSanitizer and UndefinedBehaviorSanitizer: no bad access, and the answers of its twins."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bmq.hdfs import chunk_checksums_twin
from bmq.hdfs.sasl import signatures_twin
from bmq.protocol.batch_records import Record, encode_records
from bmq.records import deliveries_twin, held_rows_twin, keys_twin
from testing.kept_files import cache_directory, kept_directory
from tests.fuzz.kernel_cases import (
    SANITIZED,
    answers,
    build,
    build_kernel,
    differences,
    mutated,
    sanitized_key,
    seeds,
)
from tests.unit.records import delivery_cases, held_row_cases
from tests.unit.records.delay_cases import random_case, split_line
from tests.unit.records.key_cases import hash_line, random_take, take_line
from tests.unit.records.packet_cases import HEAD_BYTES as PACKETS_AT
from tests.unit.records.packet_cases import packet_case, taken_one_by_one
from tests.unit.records.record_filter_cases import HEAD_BYTES, looked
from tests.unit.records.record_filter_cases import random_case as passing_case
from tests.unit.records.showing_cases import random_case as showing_case
from tests.unit.records.showing_cases import showed

pytestmark = pytest.mark.unit

MUTATED = 6_000


Driver = Callable[[str], Path]


@pytest.fixture(scope="module")
def built() -> Driver:
    """Makes a driver by its name, and keeps it for later runs of the same sources, of which compiling takes most of the time."""
    key, place = sanitized_key("cc"), cache_directory() / "sanitized"

    def compile_kernel(new: Path) -> None:
        build_kernel("cc", new / "kernel.o", *SANITIZED)

    def make(program: str) -> Path:
        def compile_driver(new: Path) -> None:
            kernel = kept_directory(place / f"kernel-{key}", compile_kernel) / "kernel.o"  # once for all drivers
            build("cc", program, new / program, *SANITIZED, kernel=kernel)

        return kept_directory(place / f"{program}-{key}", compile_driver) / program

    return make


@pytest.fixture(scope="module")
def driver(built: Driver) -> Path:
    return built("kernel_driver")


def test_broken_batches_and_many_changed_ones_are_answered_as_by_the_twins(driver: Path) -> None:
    inputs = list(seeds())
    every = [*inputs, *mutated(inputs, Random(29), MUTATED), b"", b"\0"]
    assert list(differences(driver, every)) == []


def test_a_batch_cut_at_every_byte(driver: Path) -> None:
    whole = b"\x3c" + next(iter(seeds()))[1:]  # any time is right
    lines = answers(driver, [whole[:length] for length in range(len(whole) + 1)])
    assert len(lines) == len(whole) + 1
    assert lines[-1].startswith("0 ") and not any(line.startswith("0 ") for line in lines[:-1])


def test_a_sanitizer_would_be_heard(tmp_path: Path) -> None:
    """Else the tests above would pass whatever the kernel does."""
    source = tmp_path / "bad.c"
    source.write_text(
        "#include <stdlib.h>\n"
        "int main(int count, char **words) { char *data = malloc(8); (void)words; return data[7 + count]; }\n"
    )
    subprocess.run(["cc", *SANITIZED, "-o", tmp_path / "bad", source], check=True)
    run = subprocess.run([tmp_path / "bad"], capture_output=True, text=True)
    assert run.returncode and ("runtime error" in run.stderr or "heap-buffer-overflow" in run.stderr)


def test_keys_are_hashed_and_taken_as_by_the_twins(built: Driver) -> None:
    driver = built("keys_driver")
    dice = Random(41)
    keys = (b"", b"a", b"ab", b"abc", b"abcd", b"abcdefghi", None)
    bodies = []
    for _ in range(300):
        count = dice.randint(0, 6)
        records = encode_records([Record(dice.choice(keys), dice.randbytes(3)) for _ in range(count)], 0)
        bodies.append(bytes((0, count, max(count - 1, 0))) + bytes(records) + bytes(8 if not count else 0))
    inputs = [one for one in [*bodies, *mutated(bodies, dice, 3_000)] if len(one) >= 8 and not one[0]]
    assert answers(driver, inputs) == [hash_line(one) for one in inputs]
    takes = [random_take(dice) for _ in range(3_000)]
    expected = [take_line(keys_twin.take_keys(case, *limits)) for _, case, limits in takes]
    assert answers(driver, [data for data, _, _ in takes]) == expected


def test_delayed_records_are_taken_out_as_by_the_twin(built: Driver) -> None:
    driver = built("delays_driver")
    dice = Random(43)
    cases = [random_case(dice) for _ in range(600)]
    inputs = [one for one in [*cases, *mutated(cases, dice, 3_000)] if len(one) >= 3]
    inputs += [cases[0][:length] for length in range(3, len(cases[0]))]
    assert answers(driver, inputs) == [split_line(one) for one in inputs]


def test_rows_of_held_records_are_written_as_by_the_twin(built: Driver) -> None:
    driver = built("held_rows_driver")
    dice = Random(47)
    cases = [held_row_cases.random_case(dice) for _ in range(600)]
    inputs = [one for one in [*cases, *mutated(cases, dice, 3_000)] if len(one) >= held_row_cases.HEAD.size]
    assert answers(driver, inputs) == [held_row_cases.line_by(held_rows_twin, one) for one in inputs]


def test_deliveries_are_made_as_by_the_twin(built: Driver) -> None:
    driver = built("deliveries_driver")
    dice = Random(53)
    cases = [delivery_cases.random_case(dice) for _ in range(600)]
    inputs = [one for one in [*cases, *mutated(cases, dice, 3_000)] if len(one) >= delivery_cases.HEAD.size]
    assert answers(driver, inputs) == [delivery_cases.line_by(deliveries_twin, one) for one in inputs]


def test_records_pass_filters_as_by_the_twin(built: Driver) -> None:
    driver = built("record_filter_driver")
    dice = Random(47)
    cases = [passing_case(dice) for _ in range(600)]
    inputs = [one for one in [*cases, *mutated(cases, dice, 3_000)] if len(one) >= HEAD_BYTES]
    inputs += [cases[0][:length] for length in range(HEAD_BYTES, len(cases[0]))]
    assert answers(driver, inputs) == [looked(one) for one in inputs]


def test_data_is_signed_as_by_the_twin(built: Driver) -> None:
    driver = built("hmac_md5_driver")
    dice = Random(53)
    inputs, expected = [], []
    for size_bytes in [*range(260), 16_384, 16_445]:
        count = dice.randrange(10)
        keys, heads, data = (dice.randbytes(bytes_) for bytes_ in (16 * count, 4 * count, size_bytes))
        inputs.append(bytes((count,)) + keys + heads + data)
        expected.append(f"0 {signatures_twin.signatures(keys, heads, data).hex()}")
    assert answers(driver, inputs) == expected


def test_chunks_have_the_checksums_of_the_twin(built: Driver) -> None:
    driver = built("chunk_checksums_driver")
    dice = Random(59)
    inputs, expected = [], []
    for size_bytes in [*range(200), 4_096, 20_001]:
        for chunk_bytes in (1, 7, 8, 64, 255):
            pieces, data = dice.randrange(1, 20), dice.randbytes(size_bytes)
            inputs.append(bytes((pieces, chunk_bytes)) + data)
            found = chunk_checksums_twin.chunk_checksums((data,), chunk_bytes)
            expected.append(f"{len(found) // 4} {found.hex()}")
    assert answers(driver, inputs) == expected


def test_packets_are_taken_as_one_by_one(built: Driver) -> None:
    driver = built("block_packets_driver")
    dice = Random(61)
    cases = [packet_case(dice) for _ in range(500)]
    inputs = [one for one in [*cases, *mutated(cases, dice, 4_000)] if len(one) >= PACKETS_AT]
    inputs += [cases[0][:length] for length in range(PACKETS_AT, len(cases[0]))]
    expected = [taken_one_by_one(one) for one in inputs]
    assert sum(not line.startswith("0 ") for line in expected) > len(cases)
    assert answers(driver, inputs) == expected


def test_batches_are_shown_as_by_the_twin(built: Driver) -> None:
    driver = built("showing_driver")
    dice = Random(53)
    cases = [showing_case(dice) for _ in range(600)]
    inputs = [one for one in [*cases, *mutated(cases, dice, 4_000)] if len(one) >= 2]
    inputs += [cases[0][:length] for length in range(2, len(cases[0]))]
    assert answers(driver, inputs) == [showed(one) for one in inputs]
