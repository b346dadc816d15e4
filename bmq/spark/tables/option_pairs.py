"""Options as KEY=VALUE on a command line, or in a file that it names: passwords belong there, others see a command line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

OPTIONS_BYTES_MAX: Final = 1 << 20


class NoOptions(ValueError):
    """They cannot be read; one sentence, without what may be a secret."""


def option_pair(text: str) -> tuple[str, str]:
    """Raises NoOptions."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise NoOptions(f"{text} is not KEY=VALUE")
    return key, value


def option_pairs(text: str) -> list[tuple[str, str]]:
    """`@FILE`: one on each line, without empty ones and comments (#). Raises NoOptions."""
    if not text.startswith("@"):
        return [option_pair(text)]
    try:
        with Path(text[1:]).open(encoding="utf-8") as file:
            lines = file.read(OPTIONS_BYTES_MAX + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise NoOptions(f"{text[1:]} cannot be read as a file of options: {error}") from None
    if len(lines) > OPTIONS_BYTES_MAX:
        raise NoOptions(f"{text[1:]} has more than {OPTIONS_BYTES_MAX} bytes")
    found = [line.strip() for line in lines.splitlines()]
    unusable = next((at for at, line in enumerate(found, 1) if line[:1] not in ("", "#") and line.find("=") < 1), None)
    if unusable is not None:  # without the line: it may be a secret
        raise NoOptions(f"{text[1:]}, line {unusable}: it is not KEY=VALUE")
    return [option_pair(line) for line in found if line and line[0] != "#"]
