"""What this process has logged: counts of errors, and the last lines, in which the secrets of its settings are blanked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from bmq.admin.logged_errors import LoggedErrors
from bmq.admin.recent_logs import RecentLogs
from bmq.dataclass import dataclass
from bmq.server.listener_settings import is_secret
from bmq.server.settings import Settings

_SECRET_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class OwnLogs:
    """`errors`: counts what is logged. `recent`: keeps the last lines."""

    errors: LoggedErrors
    recent: RecentLogs


def own_logs(settings: Settings, now_ms: Callable[[], int]) -> OwnLogs:
    """Empty ones. `now_ms`: wall time."""
    return OwnLogs(LoggedErrors(now_ms), RecentLogs(now_ms, OwnSecrets(settings).blanked))


class OwnSecrets:
    """They are looked up at the first text, which reads files. Any thread may ask."""

    def __init__(self, settings: Settings, variables: Mapping[str, str] = os.environ) -> None:
        self._settings = settings
        self._variables = variables
        self._blank: Callable[[str], str] | None = None
        self._lock = threading.Lock()

    def blanked(self, text: str) -> str:
        """The text without secrets."""
        with self._lock:
            if self._blank is None:
                self._blank = self._redactor()
        return self._blank(text)

    def _redactor(self) -> Callable[[str], str]:
        # Imported when the page is first asked for: it compiles a dozen expressions.
        from bmq.server.redaction import Redactor, secrets_of_settings, secrets_of_variables

        values = dict(_by_name(self._settings.model_dump()))
        secrets = secrets_of_settings(values) | secrets_of_variables(self._variables)
        for name, value in values.items():
            if value and is_secret(name) and name.endswith("_file"):
                with suppress(OSError):
                    data = Path(str(value)).read_bytes()[:_SECRET_BYTES_MAX]
                    secrets |= set(data.decode(errors="replace").splitlines()[:1])
        return Redactor(secrets).text


def _by_name(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Settings by their dotted names."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _by_name(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
