"""Java's regular expressions in rules that make a user's name of another name. Pure."""

from __future__ import annotations

import re


class WrongRules(Exception):
    """Rules of a config cannot be right; the message is one sentence."""


class NoRule(Exception):
    """No rule makes a user's name of this name."""


def java_pattern(text: str) -> re.Pattern[str]:
    """Slashes may be escaped. Raises WrongRules, also for what Python reads in another way."""
    if re.search(r"\\[pPQE]|[*+?}]\+", text):
        raise WrongRules(f"the pattern {text!r} has what only Java's regular expressions know")
    try:
        return re.compile(text.replace("\\/", "/"))
    except re.error as error:
        raise WrongRules(f"the pattern {text!r} is wrong: {error}") from None


def java_replacement(text: str, groups: int) -> str:
    """As re.Match.expand takes it. `groups`: of the pattern. Raises WrongRules."""
    absent = [number for number in re.findall(r"\$(\d+)", text) if int(number) > groups]
    if absent:
        raise WrongRules(f"the replacement {text!r} names group ${absent[0]}; the pattern has {groups}")
    plain = text.replace("\\/", "/").replace("\\", "\\\\")
    return re.sub(r"\$(\d+)", r"\\g<\1>", plain)
