"""What a run found: by tool and option, as JSON and as docs/TOOLS.md. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from tests.tools_table.intended import INTENDED, Intended, reasons_for
from tests.tools_table.left_out import OPTIONS, SCRIPTS, LeftOut, reason_for
from tests.tools_table.run import Outcome

FORMAT: Final = 1
KAFKA: Final = "4.3.0"
EQUAL, INTENDED_ONLY, DIFFERENT, LEFT_OUT, NO_CASE = "equal", "intended", "different", "left out", "no case"


@dataclass(slots=True)
class _Cell:
    steps: int = 0
    equal: int = 0
    different: int = 0
    intended: set[str] = field(default_factory=set)

    def count(self, intended: set[str], *, is_different: bool) -> None:
        self.steps += 1
        self.different += is_different
        self.equal += not is_different and not intended
        self.intended |= intended

    @property
    def state(self) -> str:
        return DIFFERENT if self.different else INTENDED_ONLY if self.intended else EQUAL


def as_json(
    outcomes: Sequence[Outcome], options: Mapping[str, Sequence[str]], entries: Sequence[Intended] = INTENDED
) -> Any:
    """JSON-ready and the same for the same answers: nothing of the run itself is in it."""
    tools: dict[str, _Cell] = {}
    cells: dict[tuple[str, str], _Cell] = {}
    cases: dict[str, int] = {}
    unexpected = []
    used: set[str] = set()
    for outcome in outcomes:
        cases[outcome.tool] = cases.get(outcome.tool, 0) + 1
        for step in outcome.steps:
            names: set[str] = set()
            missed = []
            for difference in step.differences:
                found = reasons_for(outcome.tool, outcome.case, step, difference, entries)
                if found is None:
                    missed.append({"bmq": list(difference.bmq), "kafka": list(difference.kafka)})
                else:
                    names |= found
            used |= names
            tools.setdefault(outcome.tool, _Cell()).count(names, is_different=bool(missed))
            for option in step.options:
                cells.setdefault((outcome.tool, option), _Cell()).count(names, is_different=bool(missed))
            if missed:
                where = {"tool": outcome.tool, "case": outcome.case, "command": step.command}
                unexpected.append({**where, "differences": missed})
    return {
        "format": FORMAT,
        "kafka": KAFKA,
        "tools": [
            {
                "name": tool,
                "cases": cases.get(tool, 0),
                "steps": tools[tool].steps if tool in tools else 0,
                "equal": tools[tool].equal if tool in tools else 0,
                "different": tools[tool].different if tool in tools else 0,
                "options": {option: _option(tool, option, cells) for option in named},
            }
            for tool, named in options.items()
        ],
        "intended": [{"name": one.name, "reason": one.reason} for one in entries if one.name in used],
        "unmet": [one.name for one in entries if one.name not in used],
        "differences": unexpected,
    }


def _option(tool: str, option: str, cells: Mapping[tuple[str, str], _Cell]) -> Any:
    cell = cells.get((tool, option))
    if cell is None:
        reason = reason_for(tool, option)
        return {"state": LEFT_OUT, "reason": reason} if reason else {"state": NO_CASE}
    return {"state": cell.state, "steps": cell.steps, "intended": sorted(cell.intended)}


def without_case(result: Mapping[str, Any]) -> list[str]:
    """Options that are neither compared nor left out with a reason."""
    return [
        f"{tool['name']} {option}"
        for tool in result["tools"]
        for option, cell in tool["options"].items()
        if cell["state"] == NO_CASE
    ]


BEGINNING: Final = """\
# Kafka's command line tools
<!-- Made by `make tools-table` from what the tools printed, not by hand. tools.json beside it says the same to a machine. -->

Every command line tool of Apache Kafka {kafka} that works with a cluster is run on `bmq standalone` (embedded store) and on one node of Apache Kafka {kafka}, with
each of the options that its own `--help` lists. Exit codes and all printed lines are compared.

{tools} tools, {options} options: {steps} commands were compared; {equal} print the same, {listed} differ only as listed below, {different} differ otherwise.
{left_out} options are not compared, with the reason given.
"""
LEGEND: Final = """\

## By tool and option
`=` all commands with the option print the same · a number: some differ as listed below it · `≠` some differ otherwise · `–` not compared · `?` no command yet.
An option of a subcommand follows the subcommand's name.
"""
NOT_COMPARED: Final = """\

## What is not compared
- Ids (of topics, members, producers, the cluster), addresses, directories, points in time and sizes on disk: only their presence is compared.
- Blanks are not compared, because the width of a table depends on its content. Line numbers in Java's stack traces are not compared.
- Lines without a defined order are compared as a set. For the performance tools only the shape of the output is compared.
- The tools run in one JVM, one after the other, without the warnings that their clients log.
- kafka-dump-log reads the files of a directory, so only those of the embedded store. `bmq log dump` shows the content of HDFS.
"""


def as_markdown(
    result: Mapping[str, Any],
    left_out: Iterable[LeftOut] = OPTIONS,
    scripts: Iterable[tuple[tuple[str, ...], str]] = SCRIPTS,
) -> str:
    """docs/TOOLS.md of what `as_json` made."""
    tools = result["tools"]
    numbers = {one["name"]: number for number, one in enumerate(result["intended"], 1)}
    options = [cell for tool in tools for cell in tool["options"].values()]
    steps, equal, different = (sum(tool[key] for tool in tools) for key in ("steps", "equal", "different"))
    lines = [
        BEGINNING.format(
            kafka=result["kafka"],
            tools=len(tools),
            options=len(options),
            steps=steps,
            equal=equal,
            listed=steps - equal - different,
            different=different,
            left_out=sum(cell["state"] == LEFT_OUT for cell in options),
        ).rstrip("\n"),
        LEGEND.rstrip("\n"),
        "",
        "| tool | cases | commands | equal |",
        "|---|---|---|---|",
    ]
    lines += [f"| {tool['name']} | {tool['cases']} | {tool['steps']} | {tool['equal']} |" for tool in tools]
    lines.append("")
    for tool in tools:
        marks = " · ".join(f"`{option}` {_mark(cell, numbers)}" for option, cell in tool["options"].items())
        lines.append(f"- **{tool['name']}**: {marks or 'no options'}")
    if numbers:
        lines += ["", "## Intended differences"]
        lines += [f"{numbers[one['name']]}. **{one['name']}.** {one['reason']}" for one in result["intended"]]
    if result["differences"]:
        lines += ["", "## Other differences", *_others(result["differences"])]
    lines += ["", "## Options and scripts that are left out"]
    for entry in left_out:
        names = ", ".join(f"`{option}`" for option in entry.options)
        lines.append(f"- {'all tools' if entry.tool == '*' else entry.tool}: {names}. {entry.reason}")
    lines += [f"- {', '.join(names)}: {reason}" for names, reason in scripts]
    lines += [NOT_COMPARED.rstrip("\n"), ""]
    return "\n".join(lines)


def _mark(cell: Any, numbers: Mapping[str, int]) -> str:
    listed = " ".join(str(number) for number in sorted(numbers[name] for name in cell.get("intended", ())))
    marks = {EQUAL: "=", INTENDED_ONLY: listed, DIFFERENT: f"≠ {listed}".strip(), LEFT_OUT: "–", NO_CASE: "?"}
    return marks[cell["state"]]


def _others(differences: Sequence[Any]) -> list[str]:
    lines = ["", "| command | bmq | Kafka |", "|---|---|---|"]
    for one in differences:
        for difference in one["differences"]:
            sides = [_short(" ⏎ ".join(difference[side])) for side in ("bmq", "kafka")]
            lines.append(f"| `{_short(one['command'])}` | {sides[0]} | {sides[1]} |")
    return lines


def _short(text: str) -> str:
    escaped = text.replace("|", "\\|").replace("<", "&lt;")
    return escaped if len(escaped) <= 120 else f"{escaped[:117]}..."
