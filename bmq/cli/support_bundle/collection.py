"""Puts a bundle together: facts of the machine first, then what may hang, each within its limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import httpx

from bmq.cli.doctor.command import document
from bmq.cli.doctor.examination import Examination
from bmq.cli.doctor.finding import error
from bmq.cli.setting_options import shown_settings
from bmq.cli.support_bundle import machine_facts
from bmq.cli.support_bundle.archive import Archive, NoBundle
from bmq.cli.support_bundle.rest_pages import RestPages
from bmq.dataclass import dataclass
from bmq.rest_client.login import SECRET_BYTES_MAX, RestLogin
from bmq.server.listener_settings import is_secret
from bmq.server.redaction import secrets_of_settings, secrets_of_variables
from bmq.server.settings import LoadedSettings

FACTS_MAX_S: Final = 5.0
PAGES_MAX_S: Final = 45.0
DOCTOR_MAX_S: Final = 45.0
LOGS_MAX: Final = 16


@dataclass(frozen=True, slots=True)
class Wanted:
    """`loaded`: None where the settings are wrong, and `wrong` says why. `examination`: of the doctor; None with `loaded`."""

    loaded: LoadedSettings | None
    wrong: str
    rest_url: str
    login: RestLogin
    logs: Sequence[Path]
    examination: Examination | None


def known_secrets(loaded: LoadedSettings | None, login: RestLogin) -> set[str]:
    """Secrets of the settings, of the variables, and of the files that both and the login name. Blocks."""
    values = {} if loaded is None else {origin.name: origin.value for origin in loaded.origins}
    files = [login.password_file, login.token_file]
    files += [str(value) for name, value in values.items() if value and is_secret(name) and name.endswith("_file")]
    found = secrets_of_settings(values) | secrets_of_variables(os.environ)
    for name in filter(None, files):
        with suppress(OSError):
            found |= set(Path(name).read_bytes()[:SECRET_BYTES_MAX].decode(errors="replace").splitlines()[:1])
    return found


async def collect(archive: Archive, wanted: Wanted, transport: httpx.BaseTransport | None = None) -> None:
    """Fill the archive. What fails or takes too long is noted there. Ends within 50 s. Raises NoBundle."""
    if wanted.loaded is None:
        archive.note_missing("settings.json", wanted.wrong)
    else:
        archive.add_json("settings.json", [one._asdict() for one in shown_settings(wanted.loaded)])
    await _facts(archive, "versions.json", machine_facts.versions)
    await _facts(archive, "environment.json", lambda: machine_facts.environment(os.environ))
    await _facts(archive, "processes.json", machine_facts.processes)
    await _logs(archive, wanted.logs)
    await asyncio.gather(
        _bounded(
            archive, "node", PAGES_MAX_S, lambda: RestPages(wanted.login, archive, transport).collect(wanted.rest_url)
        ),
        _bounded(archive, "doctor.json", DOCTOR_MAX_S, lambda: _doctor(archive, wanted)),
    )


async def _doctor(archive: Archive, wanted: Wanted) -> None:
    if wanted.examination is None:
        findings = [error("settings", wanted.wrong, "correct it: a server does not start with these settings")]
    else:
        findings = await wanted.examination.findings()
    archive.add_json("doctor.json", document(findings))


async def _facts(archive: Archive, name: str, facts: Callable[[], Any]) -> None:
    async def add() -> None:
        archive.add_json(name, await asyncio.to_thread(facts))

    await _bounded(archive, name, FACTS_MAX_S, add)


async def _logs(archive: Archive, given: Sequence[Path]) -> None:
    found: list[Path] = []

    async def look() -> None:
        found.extend(await asyncio.to_thread(machine_facts.log_files))

    await _bounded(archive, "logs", FACTS_MAX_S, look)
    paths = list(dict.fromkeys([*given, *found]))
    if not paths:
        archive.note_missing(
            "logs", "no server here writes to a file; name one with --log (`journalctl -u bmq > FILE`)"
        )
    for path in paths[:LOGS_MAX]:
        name = f"logs/{path.name}"

        async def add(path: Path = path, name: str = name) -> None:
            archive.add_text(name, await asyncio.to_thread(machine_facts.tail, path), is_end=True)

        await _bounded(archive, name, FACTS_MAX_S, add)
    for path in paths[LOGS_MAX:]:
        archive.note_missing(f"logs/{path.name}", f"a bundle has {LOGS_MAX} logs at most")


async def _bounded(archive: Archive, name: str, limit_s: float, work: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(limit_s):
            await work()
    except TimeoutError:
        archive.note_missing(name, f"it was not there within {limit_s:g} s")
    except NoBundle:
        raise
    except OSError as failed:
        archive.note_missing(name, f"it cannot be read: {failed.strerror or failed}")
    except Exception as failed:  # noqa: BLE001 one part that fails must not cost the others
        archive.note_missing(name, f"it failed: {failed or type(failed).__name__}")
