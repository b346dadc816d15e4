"""The catalogue of log events -> docs/EVENTS.md: `python -m tools.events_page` (`--check` writes nothing).

The sentences above `<!-- events -->` are written by hand. The list below it is made from the source (tools/log_events.py).
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Final

from tools.log_events import Event, events, log_calls

REPOSITORY: Final = Path(__file__).parents[1]
PAGE: Final = REPOSITORY / "docs" / "EVENTS.md"
MARK: Final = "<!-- events -->"
LINE: Final = 110


def catalogue(found: Iterable[Event]) -> Iterator[str]:
    """The lines of the list: a heading for each logger, an entry for each event."""
    for logger, of_logger in groupby(found, key=lambda event: event.logger):
        yield f"## {logger}"
        for event in of_logger:
            yield from textwrap.wrap(
                _entry(event), LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
            )
        yield ""


def _entry(event: Event) -> str:
    fields = ", ".join(f"`{field}`{'?' if field in event.sometimes else ''}" for field in event.fields)
    where = ", ".join(f"`{module}`" for module in event.modules)
    return f"- **`{event.name}`** ({' or '.join(event.levels)}): {fields or 'no fields'}. In {where}."


def filled(page: str, found: Iterable[Event]) -> str:
    """The page with its list made anew. Raises ValueError if it has no place for one."""
    head, mark, _ = page.partition(MARK)
    if not mark:
        raise ValueError(f"{PAGE.name} has no {MARK}")
    return head + MARK + "\n\n" + "\n".join(catalogue(found))


def main() -> int:
    """Write the page; with `--check`: 1 if it differs from what would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is not current")
    is_check = parser.parse_args().check
    before = PAGE.read_text(encoding="utf-8")
    after = filled(before, events(log_calls(REPOSITORY / "bmq")))
    if before == after:
        return 0
    if is_check:
        print(f"{PAGE.name} is not current: run python -m tools.events_page", file=sys.stderr)
        return 1
    PAGE.write_text(after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
