"""docs/benchmarks and the README's figures, made from the results files: `python -m bench.readme [--check]`.

One page for each results file is written whole. The README and docs/benchmarks/README.md have a block between two markers
that is written here; the rest of them is written by hand. --check changes nothing and ends with 1 when a file differs from
what the command would write.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any, Final

from bench.criteria import BMQ, RIVAL, Criterion
from bench.runner import FORMAT, FULL, RESULTS
from testing.processes import REPOSITORY

README: Final = REPOSITORY / "README.md"
PAGES: Final = REPOSITORY / "docs" / "benchmarks"
OVERVIEW: Final = PAGES / "README.md"
MADE_BY: Final = "<!-- Made by `python -m bench.readme` from bench/results/{name}.json, not by hand. -->"
BEGIN: Final = "<!-- Figures: made by `python -m bench.readme` from bench/results, not by hand. -->"
END: Final = "<!-- End of the figures. -->"
NOT_MEASURED: Final = "not measured: "
# A longer cell makes a table unreadable; its text becomes a note below the table.
CELL_CHARACTERS_MAX: Final = 120
LINE_CHARACTERS_MAX: Final = 110

# The README's three figures, by results file and criterion, and what each is called there.
HIGHLIGHTS: Final[Sequence[tuple[str, str, str]]] = (
    ("standalone", "produce_1k_ratio", "one server: produce 1 KiB records, MiB/s"),
    ("loads", "produce_100b_ratio", "three nodes: produce 100 B records, records/s"),
    ("standalone", "p99_10k_rps_ratio", "one server: p99 of a produce at 10,000 records/s, us"),
)

# What was compared, how to repeat it, and the picture's caption, by results file.
CHAPTERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "standalone": (
        "One server",
        "One bmq node beside one Apache Kafka node on the same machine, in alternation, replication 1, acks=all, under Kafka's own "
        "ProducerPerformance and ConsumerPerformance, kcat and confluent-kafka. Both sides are warmed by the same load until it "
        "stops getting faster. The clients share the processors with the server. `make bench` repeats all of it.",
        "bmq beside Apache Kafka",
    ),
    "hdfs": (
        "The HDFS client",
        "bmq's HDFS client beside Hadoop's own `DFSOutputStream` (hdfs-native for reads), one NameNode and three DataNodes on the same "
        "machine, each load on all clients right after each other. `make bench-hdfs` repeats all of it.",
        "bmq beside Hadoop's client",
    ),
    "secure_hdfs": (
        "The HDFS client with Kerberos",
        "bmq's HDFS client in each protection mode, `dfs.data.transfer.protection` and `hadoop.rpc.protection` alike and privacy by AES-CTR: "
        "beside itself on an open HDFS, and beside Hadoop's own client on both. Each HDFS has one NameNode and three "
        "DataNodes, all on one machine. Each load on all clients right after each other. `make bench-secure-hdfs` repeats all of it.",
        "bmq with Kerberos beside Hadoop's client",
    ),
    "cluster": (
        "A cluster",
        "bmq on HDFS and ZooKeeper beside three Apache Kafka brokers, replication 3, acks=all, all on one machine; CPU and memory of HDFS "
        "and ZooKeeper count on bmq's side. A gap is the longest time between two acknowledgements of one partition at an idempotent "
        "librdkafka producer; an excess gap is what goes beyond the larger of 0.2 s and twice that of an undisturbed run. "
        "In the combined layout each of three processes has all roles; otherwise, for faults, each role has processes of its own. "
        "`make bench-cluster` repeats all of it.",
        "a cluster of bmq beside Apache Kafka",
    ),
    "loads": (
        "A cluster under librdkafka",
        "Three nodes of bmq on HDFS and ZooKeeper beside three Apache Kafka brokers, replication 3, acks=all, all on one machine; CPU and "
        "memory of HDFS and ZooKeeper count on bmq's side. A client in C over librdkafka with its default settings produces to partitions "
        "at random; both sides are warmed until they stop getting faster. `make bench-loads` repeats all of it.",
        "a cluster under librdkafka",
    ),
    "groups": (
        "Transactions and groups",
        "One bmq node beside one Apache Kafka node, then three nodes of bmq on HDFS and ZooKeeper beside three Apache Kafka brokers "
        "(replication 3; CPU and memory of HDFS and ZooKeeper count on bmq's side), all on one machine. Transactions are those of a client "
        "in C over librdkafka; commits of offsets and heartbeats are prepared frames. Members of groups follow KIP-848 and heartbeat "
        "every 3 s. Both sides are warmed until they stop getting faster. `make bench-groups` repeats all of it.",
        "transactions and groups of bmq beside Apache Kafka's",
    ),
    "spark": (
        "Spark",
        "Three nodes of bmq on HDFS (three DataNodes) and three Apache Kafka brokers, replication 3, hold the same records, all on one "
        "machine. All of them run; only the one that is read has work. Spark with two tasks at a time reads a whole topic and sums the "
        "lengths of its values: with `format('bmq')`, with Spark's Kafka connector on the same bmq, and with the connector on Apache "
        "Kafka. Each has a Spark of its own, warmed by the same scan. Most segments are closed on both sides. Rows of tables and records "
        "of mirrors are counted after kills of their jobs and of brokers. `make bench-spark` repeats all of it.",
        "Spark's pipeline on bmq beside Spark's Kafka connector",
    ),
    "topics": (
        "The life of a topic",
        "One bmq node beside one Apache Kafka node on the same machine. A log is written whole, then compaction is switched on; processor "
        "time is that of the server and of its cleaning process. A topic of 500 partitions is deleted once it has 10,000 closed segments. "
        "The node with 10,000 partitions has a closed and an open segment in each and no clients; one check of retention falls into the "
        "measured time. Configs of topics and brokers are changed in three nodes of bmq on HDFS and ZooKeeper and in three Apache Kafka "
        "brokers; a change is in force when clients of every node observe it. `make bench-topics` repeats all of it.",
        "a topic's life on bmq beside Apache Kafka",
    ),
    "security": (
        "Security",
        "One bmq node beside one Apache Kafka node with the same listeners, certificate, user, ACLs and quotas, on one machine, in "
        "alternation. Handshakes and logins are made on one processor, with the server on the other. "
        "Strangers are 5,000 connections that stop in the middle of TLS or of SASL and stay; of those that the server closes, 100 a second "
        "are replaced, so that all places that bmq has for connections without a login (1,024) are new within ten seconds, the time that "
        "a TLS handshake may take. A flood replaces each at once, as fast as one process can. Plain loads without any security are "
        "prepared frames, beside the revision before security. `make bench-security` repeats all of it.",
        "what security costs on bmq and on Apache Kafka",
    ),
    "queues": (
        "Share groups",
        "One bmq node beside one Apache Kafka node with share groups, then three nodes of bmq on HDFS and ZooKeeper beside three Apache "
        "Kafka brokers (replication 3; CPU and memory of HDFS and ZooKeeper count on bmq's side), all on one machine. Backlogs are read by "
        "Kafka's own share consumer tool, and on bmq also by plain consumers with the settings of Kafka's consumer tool; rates count from "
        "the first record on. Members that fetch and accept one record at a time, and idle members, are a client in C. Plain loads "
        "before and after share groups are prepared frames. Half messages, each with the record that commits it, stand beside transactions "
        "of one record by the same client in C on one Apache Kafka node, 16 producers with one of them under way each; delayed records, "
        "views, checks of undecided half messages and lanes are of bmq alone. `make bench-queues` repeats all of it.",
        "share groups of bmq beside Apache Kafka's",
    ),
    "core": (
        "One core",
        "One bmq node on one core beside one Apache Kafka node on one core. A client in C on the other core sends prepared frames. This "
        "shows what the server does with one second of processor time. `make bench-core` repeats all of it.",
        "one core of bmq beside one of Apache Kafka",
    ),
}


class Unfit(Exception):
    """The results, or the README, cannot be used; the message says why."""


def read_results(directory: Path = RESULTS) -> dict[str, dict[str, Any]]:
    """Of every chapter that was measured. Raises Unfit."""
    files = {name: directory / f"{name}.json" for name in CHAPTERS}
    return {name: fit(name, json.loads(file.read_text())) for name, file in files.items() if file.exists()}


def fit(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """Raises Unfit for what is not of a whole run."""
    if result.get("format") != FORMAT or result["size"] != FULL or result.get("interrupted"):
        raise Unfit(f"{name}.json is not of a whole run in today's form")
    return result


def page(name: str, result: Mapping[str, Any]) -> str:
    """The page of one results file, docs/benchmarks/NAME.md."""
    return "\n".join(chapter(name, result)) + "\n"


def with_block(text: str, lines: Iterable[str]) -> str:
    """The text with these lines between its markers. Raises Unfit without the markers."""
    head, begin, rest = text.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise Unfit(f"the file does not have the lines {BEGIN!r} and {END!r}")
    body = "\n".join(lines)
    return f"{head}{begin}\n{body}\n{end}{tail}"


def files_made(results: Mapping[str, Mapping[str, Any]], readme: str, overview: str) -> dict[Path, str]:
    """Every file this command writes, with its text, given the README and the overview as they are. Raises Unfit."""
    made = {PAGES / f"{name}.md": page(name, result) for name, result in results.items()}
    made[README] = with_block(readme, highlights(results))
    made[OVERVIEW] = with_block(overview, index(results))
    return made


def chapter(name: str, result: Mapping[str, Any]) -> Iterator[str]:
    title, about, caption = CHAPTERS[name]
    criteria = result["criteria"]
    yield from (
        f"# {title}",
        MADE_BY.format(name=name),
        "",
        *wrap(about, LINE_CHARACTERS_MAX, break_on_hyphens=False),
        "",
        origin(result),
    )
    yield from again(result)
    yield from short_of(criteria)
    yield from unmeasured(criteria)
    yield from ("", f"## Targets ({holding(criteria)})", "")
    yield from rows(criteria)
    yield from ("", "## Reported without a target", "")
    yield from rows([one for one in result["reported"] if one["value"] is not None])
    if result["settings"]:
        yield from ("", "## Settings of both sides", "")
        yield from settings(result["settings"])
    yield from ("", "## Samples", "", f"All samples: [{name}.json](../../bench/results/{name}.json).", "")
    yield f"![{caption}](../../bench/results/{name}.svg)"


def highlights(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The README's table. A criterion that was not measured has no row."""
    yield "| | bmq | Apache Kafka | ratio: min / median / max | measured |"
    yield "|---|---|---|---|---|"
    for name, criterion_id, title in HIGHLIGHTS:
        for one in results.get(name, {}).get("criteria", ()):
            if one["id"] == criterion_id and one["value"] is not None:
                link = f"[{results[name]['date'][:10]}](docs/benchmarks/{name}.md)"
                yield f"| {' | '.join((title, *figures(one), link))} |"


def index(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The overview's table: one row a page."""
    yield "| page | targets | measured on | revision |"
    yield "|---|---|---|---|"
    for name, result in results.items():
        title = CHAPTERS[name][0]
        yield f"| [{title}]({name}.md) | {holding(result['criteria'])} | {result['date'][:10]} | {result['revision']} |"


# -- Where the figures are from --------------------------------------------------------------------------------------------


def origin(result: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {_plain(value)}" for name, value in result["versions"].items())
    revision = result["revision"]
    return f"Measured on {result['date'][:10]}, revision {revision}, on {machine(result['machine'])}; {versions}."


def machine(facts: Mapping[str, Any]) -> str:
    return (
        f"{facts['cpu_model']} ({facts['cpu_count']} cores, {facts['memory_gib']:g} GiB, Linux {facts['kernel']}, "
        f"{facts['file_system']})"
    )


def again(result: Mapping[str, Any]) -> Iterator[str]:
    """Parts that do not come from the run itself."""
    others: dict[tuple[str, str, str], list[str]] = {}
    for part, one in result["measured"].items():
        key = (one["date"][:10], one["revision"], machine(one["machine"]))
        if (one["date"], one["revision"]) != (result["date"], result["revision"]) and part in result["parts"]:
            others.setdefault(key, []).append(part)
    for (date, revision, on), parts in others.items():
        elsewhere = "" if on == machine(result["machine"]) else f", on {on}"
        yield from ("", f"Not from that run: {', '.join(parts)} (measured on {date}, revision {revision}{elsewhere}).")


# -- What does not hold ----------------------------------------------------------------------------------------------------


def short_of(criteria: Iterable[Criterion]) -> Iterator[str]:
    found = [one for one in criteria if not one["holds"] and one["value"] is not None]
    if found:
        yield from ("", "**Targets missed:**", "")
    for one in found:
        reason = f" ({_line(one['reason'])})" if "reason" in one else ""
        yield f"- {one['what']}: {value_of(one)}; target: {asked(one)}{reason}"


def unmeasured(criteria: Iterable[Criterion]) -> Iterator[str]:
    """By reason: one failure often has several criteria."""
    reasons: dict[str, list[str]] = {}
    for one in criteria:
        if one["value"] is None:
            reasons.setdefault(_line(one["reason"].removeprefix(NOT_MEASURED)), []).append(one["what"])
    if reasons:
        yield from ("", "**Not measured, so nothing is claimed:**", "")
    for reason, names in reasons.items():
        yield f"- {'; '.join(names)} ({reason})"


def holding(criteria: Sequence[Criterion]) -> str:
    return f"{sum(one['holds'] for one in criteria)} of {len(criteria)} met"


def value_of(one: Criterion) -> str:
    figure = f"{'over ' if one.get('value_at_least') else ''}{number(one['value'])}"
    return f"{figure} times {one['rival']}'s" if "medians" in one else f"{figure} {one['unit']}".rstrip()


def asked(one: Criterion) -> str:
    return f"{'at most' if one['op'] == '<=' else 'at least'} {one['bound']:g}"


# -- Tables ----------------------------------------------------------------------------------------------------------------


def rows(criteria: Sequence[Criterion]) -> Iterator[str]:
    """A table, and below it the cells that are too long for one."""
    yield "| | bmq | rival | ratio: min / median / max | target | |"
    yield "|---|---|---|---|---|---|"
    notes: list[str] = []
    for one in criteria:
        name = f"{one['what']}, {one['unit']}" if one["unit"] else one["what"]
        yield f"| {' | '.join(_short(cell, notes) for cell in (name, *figures(one), *verdict(one)))} |"
    if notes:
        yield ""
    for number_, note in enumerate(notes, 1):
        yield f"{number_}. {note}"


def _short(cell: str, notes: list[str]) -> str:
    """The cell, or the number of the note that has its text."""
    if len(cell) <= CELL_CHARACTERS_MAX:
        return cell
    if cell not in notes:
        notes.append(cell)
    return f"note {notes.index(cell) + 1}"


def figures(one: Criterion) -> tuple[str, str, str]:
    """bmq's, the rival's and how they compare."""
    if "medians" in one:
        spread = (
            " / ".join(f"{value:.2f}" for value in one["spread"])
            if "spread" in one and one["value"] is not None
            else ""
        )
        ours, theirs = (number(one["medians"].get(side)) for side in (BMQ, RIVAL))
        shown = (ours, theirs) if one["value"] is not None else ("", "")
        return (*shown, spread)
    ours = f"{'over ' if one.get('value_at_least') else ''}{number(one['value'])}"
    theirs = f"{'over ' if one.get('rival_at_least') else ''}{number(one['rival'])}"
    return ours, theirs, ""


def verdict(one: Criterion) -> tuple[str, str]:
    if "holds" not in one:
        return "", _line(one.get("reason", ""))
    said = "met" if one["holds"] else "not measured" if one["value"] is None else "**missed**"
    return asked(one), said


def settings(found: Iterable[Mapping[str, str]]) -> Iterator[str]:
    yield "| of | what | here | default | the default is measured in |"
    yield "|---|---|---|---|---|"
    for one in found:
        yield f"| {' | '.join(one[name] for name in ('of', 'what', 'value', 'default', 'measured'))} |"


def number(value: object) -> str:
    """Three digits, or all of an integer's; a text as it is."""
    if not isinstance(value, int | float):
        return "" if value is None else str(value)
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


def _plain(version: str) -> str:
    return version.replace('openjdk version "', "").partition('"')[0]


def _line(reason: str) -> str:
    """The end of a log has many; a table has room for its first."""
    return reason.splitlines()[0].replace("|", "/") if reason else ""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--check", action="store_true")
    given = options.parse_args()
    try:
        made = files_made(read_results(), README.read_text(), OVERVIEW.read_text())
    except Unfit as error:
        print(f"bench.readme: {error}", file=sys.stderr)
        sys.exit(2)
    changed = [file for file, text in made.items() if not file.exists() or file.read_text() != text]
    for file in changed:
        if not given.check:
            file.write_text(text := made[file])
            print(f"{file} written, {len(text.splitlines())} lines")
        else:
            print(f"{file} is not what `python -m bench.readme` writes")
    if not changed:
        print("the figures are up to date")
    sys.exit(int(given.check and bool(changed)))


if __name__ == "__main__":
    main()
