"""The kernel under AddressSanitizer and UndefinedBehaviorSanitizer: no bad access, and the answers of its twins."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.fuzz.kernel_cases import SANITIZED, answers, build, differences, mutated, seeds

pytestmark = pytest.mark.unit

MUTATED = 6_000


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build("cc", "kernel_driver", tmp_path_factory.mktemp("sanitized") / "driver", *SANITIZED)


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
