"""Fill the tables of docs/CONFIG.md from the code: `python -m tools.config_page` (`--check` writes nothing).

The page's own sentences stay as they are. What stands between `<!-- NAME -->` and `<!-- end of NAME -->` is replaced:

- `settings`, `tables`: the settings of `bmq.server.settings`; a row's meaning is the first paragraph of the docstring
  below the field.
- `topic configs`, `broker configs`, `configs without effect`: Kafka's configs, from the tables in `bmq.metadata`.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from bmq.metadata.broker_configs import BROKER_CONFIGS, OWN_STATIC
from bmq.metadata.config_keys import NO_EFFECT, ConfigKey
from bmq.metadata.topic_configs import TOPIC_CONFIGS
from bmq.server.broker_configs import STANDALONE_DEFAULTS
from bmq.server.kafka_names import SETTING_OF
from bmq.server.settings import Settings

PAGE: Final = Path(__file__).parents[1] / "docs" / "CONFIG.md"
LINE: Final = 110
DEFAULTS: Final = {
    "fetch.read_cache_bytes_max": "`67108864`; on HDFS 1/32 of the memory",
    "broker.tail_cache_bytes_max": "`67108864`; on HDFS 1/32 of the memory",
    "broker.compaction_bytes_per_s_max": "no limit",
    "hdfs.replication": "`dfs.replication`, else `3`",
    "advertised.listeners": "the setting `advertised`",
    "broker.id": "the setting `node_id`",
    "broker.rack": "the setting `rack`",
    "listeners": "the setting `listen`",
    "log.dirs": "the setting `store` or `data`",
    "node.id": "the setting `node_id`",
    "process.roles": "the setting `roles`",
}
"""Defaults that a start computes, that another setting gives, or that a number would not explain."""
OF_NODES: Final = frozenset({"router"})
"""Tables that only `bmq node` reads."""
TOLD_ABOVE: Final = (
    "add.partitions.to.txn.",
    "group.consumer.",
    "group.share.",
    "group.streams.",
    "telemetry.max.bytes",
    "transaction.",
    "transactional.",
    "connection.failed.authentication.delay.ms",
    "connections.max.reauth.ms",
    "sasl.enabled.mechanisms",
)
"""Beginnings of the names of broker configs that have tables of their own, with more words, on the page."""


def _first_paragraphs(cls: type) -> dict[str, str]:
    """The meaning of each field of a class, by the field's name."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = tree.body[0].body  # type: ignore[attr-defined]
    found: dict[str, str] = {}
    for field, below in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = inspect.cleandoc(ast.literal_eval(below.value)).split("\n\n")[0]
            found[field.target.id] = " ".join(text.split())
    return found


def _meaning(text: str) -> str:
    """A sentence as the cell of a table: small first letter, no full stop."""
    first = text if text[1].isupper() or text.split()[0].rstrip(";:,") in NAMES else text[0].lower() + text[1:]
    return first.removesuffix(".")


NAMES: Final = frozenset({"DataNodes", "ZooKeeper", "ZooKeeper's", "Kafka's"})
"""Words that begin with a capital in the middle of a sentence too."""


def _default(name: str, value: Any) -> str:
    if name in DEFAULTS:
        return DEFAULTS[name]
    if value is None:
        return "none"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`" if str(value) and value != {} else "empty"


def _rows_of_settings(*, in_tables: bool) -> Iterator[str]:
    yield "| setting | default | meaning |"
    yield "|---|---|---|"
    defaults = Settings()
    own = _first_paragraphs(Settings)
    for table in Settings.model_fields:
        value = getattr(defaults, table)
        has_fields = is_dataclass(value) or isinstance(value, BaseModel)
        if has_fields != in_tables:
            continue
        if not has_fields:
            yield f"| `{table}` | {_default(table, value)} | {_meaning(own[table])} |"
            continue
        prefix = "`bmq node`: " if table in OF_NODES else ""
        meanings = _first_paragraphs(type(value))
        names = type(value).model_fields if isinstance(value, BaseModel) else value.__dataclass_fields__
        for name in names:
            full = f"{table}.{name}"
            yield f"| `{full}` | {_default(full, getattr(value, name))} | {prefix}{_meaning(meanings[name])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _kafka_default(key: ConfigKey) -> str:
    if key.name in DEFAULTS:
        return DEFAULTS[key.name]
    value = f"`{key.default}`" if key.default else "empty"
    own = next((OWN_STATIC[name] for name in _names(key) if name in OWN_STATIC), None)
    if key.name in SETTING_OF:
        table, setting = SETTING_OF[key.name]
        own = f"{getattr(getattr(Settings(), table), setting):.17g}".replace("e+", "E")
    if own is not None and own != key.default:
        return f"`{own}` on this server, Kafka's is {value}"
    if key.name in STANDALONE_DEFAULTS and STANDALONE_DEFAULTS[key.name] != key.default:
        return f"{value}; standalone `{STANDALONE_DEFAULTS[key.name]}`"
    return value


def _names(key: ConfigKey) -> list[str]:
    return [key.name, *(synonym.name for synonym in key.synonyms)]


def _rows_of_topics() -> Iterator[str]:
    yield "| topic config | default | meaning |"
    yield "|---|---|---|"
    for key in TOPIC_CONFIGS.values():
        if key.documentation.startswith(NO_EFFECT) or key.name.startswith("bmq."):
            continue
        others = [synonym.name for synonym in key.synonyms if synonym.name != key.name]
        brackets = f" ({', '.join(f'`{name}`' for name in others)})" if others else ""
        yield f"| `{key.name}`{brackets} | {_kafka_default(key)} | {_cell(key.documentation)} |"


def _rows_of_brokers() -> Iterator[str]:
    yield "| broker config | default | dynamic | meaning |"
    yield "|---|---|---|---|"
    of_topics = {synonym.name for key in TOPIC_CONFIGS.values() for synonym in key.synonyms}
    for key in BROKER_CONFIGS.values():
        is_elsewhere = key.name in of_topics or key.name.startswith(TOLD_ABOVE)
        is_elsewhere = is_elsewhere or (key.name in SETTING_OF and not key.is_dynamic)
        if key.documentation.startswith(NO_EFFECT) or is_elsewhere:
            continue
        dynamic = "yes" if key.is_dynamic else ""
        yield f"| `{key.name}` | {_kafka_default(key)} | {dynamic} | {_cell(key.documentation)} |"


def _without_effect() -> Iterator[str]:
    names: dict[str, set[str]] = {}
    for table in (TOPIC_CONFIGS, BROKER_CONFIGS):
        for key in table.values():
            if key.documentation.startswith(NO_EFFECT):
                reason = key.documentation.removeprefix(NO_EFFECT).strip()
                names.setdefault(reason, set()).update(_names(key))
    for reason, having_it in names.items():
        text = f"- **{reason}** {', '.join(f'`{name}`' for name in sorted(having_it))}"
        yield from textwrap.wrap(text, LINE, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def parts() -> Mapping[str, Iterable[str]]:
    """The lines of each generated part by its name."""
    return {
        "settings": _rows_of_settings(in_tables=False),
        "topic configs": _rows_of_topics(),
        "broker configs": _rows_of_brokers(),
        "configs without effect": _without_effect(),
        "tables": _rows_of_settings(in_tables=True),
    }


def filled(page: str) -> str:
    """The page with every generated part made anew. Raises ValueError for a part that the page has no place for."""
    for name, lines in parts().items():
        begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1:
            raise ValueError(f"{PAGE.name} has no {begin} … {end}")
        pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
        text = "\n".join((begin, "", *lines, "", end))
        page = pattern.sub(lambda _, text=text: text, page)  # type: ignore[misc]
    return page


def main() -> int:
    """Write the page; with `--check`: 1 if it differs from what would be written."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the page is not current")
    is_check = parser.parse_args().check
    before = PAGE.read_text()
    after = filled(before)
    if before == after:
        return 0
    if is_check:
        print(f"{PAGE.name} is not current: run python -m tools.config_page", file=sys.stderr)
        return 1
    PAGE.write_text(after)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
