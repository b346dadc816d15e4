"""Fuzzes one target with libFuzzer (atheris): python -m tests.fuzz.guided TARGET [libFuzzer's options] CORPUS

With `--input FILE` it asks for one input and shows how it fails. The branches of the target's modules guide the search;
half of the changes know the format. An input may take INPUT_CPU_S_MAX of processor time and the process MEMORY_MB_MAX.
"""

from __future__ import annotations

import logging
import sys
import time
from hashlib import sha1
from pathlib import Path
from random import Random
from typing import Any, Final

import atheris
import structlog

from tests.fuzz.mutation import INPUT_BYTES_MAX, changed
from tests.fuzz.target import Target, target_of

MEMORY_MB_MAX: Final = 300
INPUT_CPU_S_MAX: Final = 2.0
"""Far above the milliseconds that an input takes, because other processes use the caches of this processor too."""
INPUT_WALL_S_MAX: Final = 60
ARTIFACT_PREFIX: Final = "-artifact_prefix="


class TooSlow(Exception):
    """An input took more processor time than INPUT_CPU_S_MAX."""


def checked(target: Target, data: bytes) -> None:
    """Raises what the target raises, and TooSlow."""
    began_s = time.process_time()
    target.check(data)
    took_s = time.process_time() - began_s
    if took_s > INPUT_CPU_S_MAX:
        raise TooSlow(f"an input of {len(data)} bytes takes {took_s:.1f} s")


def instrumented_target(name: str) -> Target:
    """Import the target with its modules instrumented, and the readers that are compiled for each message."""
    from bmq.protocol import wire

    compiled = wire._Source.compiled

    def instrumented(source: Any, function: str) -> Any:
        made = compiled(source, function)
        return atheris.instrument_func(made) if type(source) is wire.ReaderSource else made

    if name in (
        "requests",
        "responses",
        "internal_messages",
        "stored_records",
        "envelope",
        "consumer_protocol",
        "delegation_tokens",
    ):
        wire._Source.compiled = instrumented  # type: ignore[method-assign,assignment]
    target = target_of(name)
    for module_name, module in list(sys.modules.items()):
        if module is not None and module_name.startswith(target.instrumented):
            _instrument(module)
    return target


def _instrument(module: Any) -> None:
    """The functions and methods that the module defines."""
    for owner in (module, *(value for value in vars(module).values() if isinstance(value, type))):
        for value in list(vars(owner).values()):
            function = getattr(value, "__func__", value)
            if getattr(function, "__module__", None) == module.__name__ and hasattr(function, "__code__"):
                atheris.instrument_func(function)


def main() -> None:
    name, *options = sys.argv[1:]
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    if options[:1] == ["--input"]:
        checked(target_of(name), Path(options[1]).read_bytes())
        print("it is answered as it should be")
        return
    target = instrumented_target(name)

    def mutator(data: bytes, size_max: int, seed: int) -> bytes:
        dice = Random(seed)
        if target.mutate is not None and dice.randrange(2):
            return target.mutate(bytes(data), dice)[:size_max]
        return changed(bytes(data), dice)[:size_max] if not dice.randrange(3) else atheris.Mutate(data, size_max)

    def keep_faults(data: bytes) -> None:
        """libFuzzer does not always write the input of an exception."""
        try:
            checked(target, data)
        except BaseException:
            found = [option for option in options if option.startswith(ARTIFACT_PREFIX)]
            if found:
                Path(f"{found[0].removeprefix(ARTIFACT_PREFIX)}crash-{sha1(data).hexdigest()}").write_bytes(data)
            raise

    limits = [f"-rss_limit_mb={MEMORY_MB_MAX}", f"-timeout={INPUT_WALL_S_MAX}", f"-max_len={INPUT_BYTES_MAX}"]
    limits.append(f"-report_slow_units={INPUT_WALL_S_MAX}")  # its own limit of 10 s finds fault with a busy machine
    atheris.Setup(
        [sys.argv[0], *limits, "-print_final_stats=1", *options],
        keep_faults,
        custom_mutator=mutator,
    )
    atheris.Fuzz()


if __name__ == "__main__":
    main()
