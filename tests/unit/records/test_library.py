"""The kernel is loaded only when it is whole and made for this package; otherwise one sentence says why not."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from bmq.records.native import library
from bmq.records.native.library import ABI, CHECKSUM_SUFFIX, FILE_NAME, KernelUnusable, load

pytestmark = pytest.mark.unit

SOURCES = Path(library.__file__).parent


def sign(path: Path) -> None:
    path.with_name(path.name + CHECKSUM_SUFFIX).write_text(hashlib.sha256(path.read_bytes()).hexdigest() + "\n")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compiled") / FILE_NAME
    subprocess.run(
        ["cc", "-O0", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-o", path, *SOURCES.glob("*.c")], check=True
    )
    return path


@pytest.fixture
def made(compiled: Path, tmp_path: Path) -> Path:
    """A library as setup.py makes it, in a directory of its own."""
    path = tmp_path / FILE_NAME
    shutil.copy(compiled, path)
    sign(path)
    return path


def test_a_whole_library_is_loaded(made: Path) -> None:
    assert load(made).at_length.bmq_kernel_abi() == ABI


def test_the_header_and_the_loader_have_one_number() -> None:
    assert f"#define BMQ_KERNEL_ABI {ABI}\n" in (SOURCES / "kernel.h").read_text()


def test_a_library_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KernelUnusable, match="installed without a C compiler"):
        load(tmp_path / FILE_NAME)


def test_a_library_without_its_checksum_is_not_loaded(made: Path) -> None:
    made.with_name(made.name + CHECKSUM_SUFFIX).unlink()
    with pytest.raises(KernelUnusable):
        load(made)


@pytest.mark.parametrize("place", [0, 40, 4000, -1])
def test_a_damaged_library_is_not_loaded(made: Path, place: int) -> None:
    data = bytearray(made.read_bytes())
    data[place] ^= 1
    made.write_bytes(data)
    with pytest.raises(KernelUnusable, match="damaged"):
        load(made)


def test_a_library_that_was_cut_short_is_not_loaded(made: Path) -> None:
    made.write_bytes(made.read_bytes()[:-4096])
    with pytest.raises(KernelUnusable, match="damaged"):
        load(made)


def test_a_library_of_another_version_is_not_used(tmp_path: Path) -> None:
    shutil.copytree(SOURCES, tmp_path / "sources", ignore=shutil.ignore_patterns("*.py", "*.so*", "__pycache__"))
    header = tmp_path / "sources" / "kernel.h"
    header.write_text(header.read_text().replace(f"BMQ_KERNEL_ABI {ABI}", f"BMQ_KERNEL_ABI {ABI + 1}"))
    path = tmp_path / FILE_NAME
    subprocess.run(["cc", "-fPIC", "-shared", "-o", path, *(tmp_path / "sources").glob("*.c")], check=True)
    sign(path)
    with pytest.raises(KernelUnusable, match=f"has interface {ABI + 1}, this version of bmq calls interface {ABI}"):
        load(path)


def test_a_library_for_another_processor_is_not_loaded(made: Path) -> None:
    data = bytearray(made.read_bytes())
    data[18:20] = (0x16).to_bytes(2, "little")  # e_machine of ELF: IBM S/390
    made.write_bytes(data)
    sign(made)
    with pytest.raises(KernelUnusable, match=r"libbmqkernel\.so is made for another processor"):
        load(made)


def test_a_file_that_is_no_library_is_not_loaded(tmp_path: Path) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(b"no library")
    sign(path)
    with pytest.raises(KernelUnusable, match="cannot be loaded"):
        load(path)


def test_a_library_without_our_functions_is_not_used(tmp_path: Path) -> None:
    path, source = tmp_path / FILE_NAME, tmp_path / "other.c"
    source.write_text("int other(void) { return 0; }\n")
    subprocess.run(["cc", "-fPIC", "-shared", "-o", path, source], check=True)
    sign(path)
    with pytest.raises(KernelUnusable, match="bmq_kernel_abi"):
        load(path)
