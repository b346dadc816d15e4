"""Inputs of the kernel's checks, and the answers that its twins in Python give: the lines that kernel_case.h writes."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from bmq.protocol.batch_records import Record, encode_batch
from bmq.records.delays_twin import split_with_status
from bmq.records.lz4_frames import is_one_frame_twin
from bmq.records.native import library
from bmq.records.record_check import Result, Rules
from bmq.records.record_check_twin import TwinCheck
from bmq.records.record_filter_layout import BEGIN, RecordFilter, Term
from bmq.records.record_filter_twin import CompiledFilter
from bmq.records.records_twin import Damage
from testing.kept_files import key_of
from tests.conformance.broken_batches import CODECS, ways
from tests.unit.records.delay_cases import TERMS, random_records

SOURCES: Final = Path(library.__file__).parent
HERE: Final = Path(__file__).parent
NOW_MS: Final = 1_700_000_000_000
REFUSED_MAX: Final = 3
TAGGED: Final = 8
"""Seeds with keys and tags."""
DELAYED: Final = 40
"""Seeds with delay headers."""
BOUNDS_MS: Final = (0, 5, 3_600_000, 2**63 - 1)
SANITIZED: Final = ("-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
WARNINGS: Final = ("-std=c11", "-Wall", "-Wextra", "-Wconversion", "-Werror")


def build(compiler: str, program: str, target: Path, *flags: str, kernel: Path | None = None) -> Path:
    """Compile one of the programs here with the kernel's sources, or with what `build_kernel` made. Warnings are errors."""
    sources = [HERE / f"{program}.c", *(_kernel_sources() if kernel is None else (kernel,))]
    subprocess.run([compiler, *WARNINGS, *flags, f"-I{SOURCES}", "-o", target, *sources], check=True)
    return target


def build_kernel(compiler: str, target: Path, *flags: str) -> Path:
    """Compile the kernel's sources to one object file, for several programs."""
    options = (*WARNINGS, *flags, f"-I{SOURCES}", "-r", "-nostdlib")
    subprocess.run([compiler, *options, "-o", target, *_kernel_sources()], check=True)
    return target


def sanitized_key(compiler: str) -> str:
    """The same for the same compiler, flags and sources, those of the programs here as well."""
    version = subprocess.run([compiler, "--version"], check=True, capture_output=True).stdout
    files = sorted(file for place in (SOURCES, HERE) for kind in ("*.c", "*.h") for file in place.glob(kind))
    contents = (part for file in files for part in (file.name.encode(), file.read_bytes()))
    return key_of((version, " ".join((*WARNINGS, *SANITIZED)).encode(), *contents))


def _kernel_sources() -> list[Path]:
    return sorted(SOURCES.glob("*.c"))


def answers(driver: Path, inputs: Sequence[bytes]) -> list[str]:
    """The kernel's answers, by a driver that `build` made. Raises CalledProcessError with a sanitizer's report."""
    data = b"".join(struct.pack("<I", len(one)) + one for one in inputs)
    run = subprocess.run([driver], input=data, capture_output=True)
    if run.returncode:
        raise AssertionError(run.stderr.decode(errors="replace"))
    return run.stdout.decode().splitlines()


def twins_answer(data: bytes) -> str:
    settings, batch = data[0] if data else 0, memoryview(bytearray(data[1:]))
    twin = TwinCheck(Rules(settings & 3), BOUNDS_MS[settings >> 2 & 3], BOUNDS_MS[settings >> 4 & 3])
    result = twin.batch(batch, NOW_MS)
    line, opened, place, delays, passing = f"{int(result)}", int(result), 0, 0, "0 0"
    if result != Result.NO_HEADER:
        line += " " + " ".join(map(str, twin.details())) + " |"
        for one in twin.refused(REFUSED_MAX):
            line += f" {one.batch_index}:{int(one.kind)}:{one.timestamp_ms}"
        place = twin.details().failed_position
        delays = split_with_status(batch[61:], batch[60] & 63, batch[26], TERMS)[0]
        passing = _passing(batch[61:], batch[60] & 63, batch[26])
    return f"{line} | {opened} {opened} {place} | {int(is_one_frame_twin(batch))} | {delays} | {passing}"


def _passing(body: memoryview, count: int, last_delta: int) -> str:
    """How the records pass the filter of kernel_case.h: the status, and how many do."""
    wanted = RecordFilter((Term((b"bmq-tag",), (b"a",)), Term((), (b"k",))), 0xE)
    try:
        return f"0 {CompiledFilter(wanted).filter_records(body, BEGIN, count, last_delta).passed}"
    except Damage as damage:
        return f"{-damage.kind} 0"


def seeds() -> Iterator[bytes]:
    """Batches broken in all the ways of the conformance cases, bodies of LZ4 by themselves, and batches with delay headers or
    tags.
    """
    for codec in range(len(CODECS)):
        for number, (_, batch) in enumerate(ways(codec, NOW_MS)):
            yield bytes([number * 37 & 0xFF]) + batch
            if codec == CODECS.index("lz4"):
                yield b"\0" + batch[61:]
    dice = Random(3)
    for _ in range(DELAYED):
        yield b"\x3c" + encode_batch(random_records(dice))
    for _ in range(TAGGED):
        records = [Record(dice.choice((None, b"k")), b"", (("bmq-tag", dice.choice((None, b"a", b"b"))),))] * 3
        yield b"\x3c" + encode_batch(records)


def mutated(inputs: Sequence[bytes], dice: Random, count: int) -> Iterator[bytes]:
    """So many inputs, each made of one of these by a few changes."""
    for _ in range(count):
        data = bytearray(dice.choice(inputs))
        for _ in range(dice.randint(1, 4)):
            place = dice.randrange(len(data) + 1)
            match dice.randrange(6):
                case 0 if place < len(data):
                    data[place] ^= 1 << dice.randrange(8)
                case 1 if place < len(data):
                    data[place] = dice.choice((0, 1, 2, 0x7F, 0x80, 0xFE, 0xFF))
                case 2:
                    del data[place : place + dice.randint(1, 9)]
                case 3:
                    data[place:place] = dice.randbytes(dice.randint(1, 9))
                case 4:
                    other = dice.choice(inputs)
                    begin = dice.randrange(len(other) + 1)
                    data[place:place] = other[begin : begin + dice.randint(1, 60)]
                case _:
                    del data[place:]
        yield bytes(data)


def differences(driver: Path, inputs: Iterable[bytes], batch: int = 2000) -> Iterator[tuple[bytes, str, str]]:
    """(input, the kernel's answer, its twin's) where they are not the same."""
    found: list[bytes] = []

    def compared() -> Iterator[tuple[bytes, str, str]]:
        for one, ours in zip(found, answers(driver, found), strict=True):
            if (theirs := twins_answer(one)) != ours:
                yield one, ours, theirs
        found.clear()

    for one in inputs:
        found.append(one)
        if len(found) == batch:
            yield from compared()
    yield from compared()
