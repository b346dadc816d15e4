"""Runs a program and reads its output, for the drivers for systemd and Kubernetes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from bmq.admin.drivers.driver import DriverFailed
from bmq.dataclass import dataclass

OUTPUT_BYTES_MAX: Final = 4 * 1024 * 1024
_REASON_CHARACTERS_MAX: Final = 300


@dataclass(frozen=True, slots=True)
class CommandResult:
    exit_code: int
    output: str
    errors: str


class CommandRunner(Protocol):
    async def __call__(self, command: Sequence[str], timeout_s: float) -> CommandResult:
        """Raises DriverFailed when it cannot be run, takes longer than `timeout_s` or prints too much."""


async def run_command(command: Sequence[str], timeout_s: float) -> CommandResult:
    """The real one. Nothing is left running however it ends."""
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise DriverFailed(f"{command[0]} cannot be run: {error.strerror or error}") from error
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(timeout_s):
            output, errors = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            exit_code = await process.wait()
    except TimeoutError:
        raise DriverFailed(f"`{' '.join(command)}` did not end within {timeout_s:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return CommandResult(exit_code, output, errors)


async def _read(stream: asyncio.StreamReader) -> str:
    chunks: list[bytes] = []
    size_bytes = 0
    while chunk := await stream.read(64 * 1024):
        size_bytes += len(chunk)
        if size_bytes > OUTPUT_BYTES_MAX:
            raise DriverFailed(f"a command said more than {OUTPUT_BYTES_MAX} bytes")
        chunks.append(chunk)
    return b"".join(chunks).decode(errors="replace")


async def output_of(run: CommandRunner, command: Sequence[str], timeout_s: float) -> str:
    """The command's output. If it fails, raises DriverFailed with the last line it printed."""
    result = await run(command, timeout_s)
    if result.exit_code != 0:
        lines = [line.strip() for line in (result.errors or result.output).splitlines() if line.strip()]
        reason = lines[-1][:_REASON_CHARACTERS_MAX] if lines else "it did not say why"
        raise DriverFailed(f"`{' '.join(command)}` ended with {result.exit_code}: {reason}")
    return result.output
