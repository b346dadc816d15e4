"""A manual page (man(7)) of a command, from what its `--help` says. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

PROGRAM: Final = "bmq"
EXIT_CODES: Final = (
    ("0", "done"),
    ("1", "failed; standard error has one sentence"),
    ("2", "wrong usage"),
    ("130", "interrupted"),
)


def page_name(words: tuple[str, ...]) -> str:
    """`bmq-topic` for the words ("topic",)."""
    return "-".join((PROGRAM, *words))


def man_page(command: Any, words: tuple[str, ...], version: str) -> str:
    """`command`: click's command of the words behind `bmq`. A group's page has the commands in it, the program's their names."""
    name = page_name(words)
    lines = [f'.TH "{name.upper()}" "1" "" "{PROGRAM} {escaped(version)}" "User Commands"', ".SH NAME"]
    lines.append(f"{escaped(name)} \\- {escaped(summary(command))}")
    lines += [".SH SYNOPSIS", *_synopsis(command, words), ".SH DESCRIPTION", *_paragraphs(command.help or "")]
    lines += _options(command)
    if subcommands := _subcommands(command):
        lines.append(".SH COMMANDS")
        for each, below in subcommands:
            lines += _command(below, (*words, each), is_whole=bool(words))
    lines.append(".SH EXIT STATUS")
    for code, meaning in EXIT_CODES:
        lines += [".TP", f".B {code}", escaped(meaning)]
    lines += [".SH SEE ALSO", *_see_also(words, subcommands)]
    return "\n".join(lines) + "\n"


def summary(command: Any) -> str:
    """The first sentence of a command's help, without its end."""
    first = " ".join((command.help or "").partition("\n\n")[0].split())
    return first.partition(". ")[0].removesuffix(".") or "a command of bmq"


def escaped(text: str) -> str:
    """Text that roff shows as it is, also at the beginning of a line. Control characters are left out."""
    plain = "".join(each for each in text.replace("\\[", "[") if each.isprintable())
    shown = plain.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{shown}" if shown[:1] in (".", "'") else shown


def _command(command: Any, words: tuple[str, ...], *, is_whole: bool) -> Iterator[str]:
    if not is_whole:
        yield from (".TP", f"\\fB{escaped(' '.join(words))}\\fR", escaped(summary(command)))
        return
    yield f'.SS "{escaped(" ".join((PROGRAM, *words)))}"'
    yield from _synopsis(command, words)
    yield ".PP"
    yield from _paragraphs(command.help or "")
    yield from _parameters(command)
    for each, below in _subcommands(command):
        yield from _command(below, (*words, each), is_whole=True)


def _synopsis(command: Any, words: tuple[str, ...]) -> Iterator[str]:
    yield f"\\fB{escaped(' '.join((PROGRAM, *words)))}\\fR"
    yield "[\\fIOPTION\\fR]..."
    if _subcommands(command):
        yield "\\fICOMMAND\\fR [\\fIARGUMENT\\fR]..."
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            yield f"\\fI{escaped(_value_name(parameter))}\\fR"


def _options(command: Any) -> Iterator[str]:
    lines = list(_parameters(command))
    if lines:
        yield ".SH OPTIONS"
        yield from lines


def _parameters(command: Any) -> Iterator[str]:
    for parameter in command.params:
        if getattr(parameter, "hidden", False):
            continue
        yield ".TP"
        if parameter.param_type_name == "argument":
            yield f"\\fI{escaped(_value_name(parameter))}\\fR"
        else:
            names = ", ".join(f"\\fB{escaped(each)}\\fR" for each in (*parameter.opts, *parameter.secondary_opts))
            value = "" if getattr(parameter, "is_flag", False) else f" \\fI{escaped(_value_name(parameter))}\\fR"
            yield names + value
        help_text = " ".join((getattr(parameter, "help", None) or "").split()) or "See above."
        variable = parameter.envvar if isinstance(parameter.envvar, str) else ""
        yield escaped(help_text + (f" (variable {variable})" if variable else ""))


def _value_name(parameter: Any) -> str:
    return str(parameter.metavar or "VALUE")


def _subcommands(command: Any) -> list[tuple[str, Any]]:
    if not hasattr(command, "list_commands"):
        return []
    context = command.context_class(command)
    return [(name, command.get_command(context, name)) for name in sorted(command.list_commands(context))]


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(part for part in text.split("\n\n") if part.strip()):
        if number:
            yield ".PP"
        yield escaped(" ".join(paragraph.split()))


def _see_also(words: tuple[str, ...], subcommands: list[tuple[str, Any]]) -> Iterator[str]:
    others = [page_name((each,)) for each, _ in subcommands] if not words else [PROGRAM]
    yield ", ".join(f"\\fB{escaped(each)}\\fR(1)" for each in others)
