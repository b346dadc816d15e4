"""The figures for people: what is judged, the rival's figure beside it, and what holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bench.criteria import BMQ, RIVAL, Criterion

NAME_WIDTH: Final = 52


def table(result: Mapping[str, Any]) -> str:
    lines = [f"{'':{NAME_WIDTH}}{'bmq':>12}{'rival':>12}{'ratio min':>11}{'median':>8}{'max':>8}"]
    lines += [line(one) for one in result["criteria"]]
    lines += ["", "reported, without a bound"]
    lines += [line(one) for one in result["reported"]]
    return "\n".join(lines)


def line(one: Criterion) -> str:
    name = f"{one['what']} [{one['unit']}]" if one["unit"] else one["what"]
    return f"{name:{NAME_WIDTH}}{''.join(cells(one))}  {verdict_text(one)}".rstrip()


def cells(one: Criterion) -> list[str]:
    """Both figures; the spread of a ratio behind them."""
    if "medians" not in one:
        return [number(one["value"], 12), number(one["rival"], 12), " " * 27]
    spread = one.get("spread", [None] * 3)
    figures = [number(one["medians"].get(side), 12) for side in (BMQ, RIVAL)]
    return [*figures, *(number(value, width) for value, width in zip(spread, (11, 8, 8), strict=True))]


def number(value: object, width: int) -> str:
    return f"{value:{width}.4g}" if isinstance(value, int | float) else f"{'-':>{width}}"


def verdict_text(one: Criterion) -> str:
    reason = str(one.get("reason", ""))
    if "\n" in reason:  # the end of a log: its last line says most
        reason = f"{reason.splitlines()[0]} … {reason.splitlines()[-1]}"
    if "holds" not in one:
        return reason
    return f"{one['op']} {one['bound']:g}: {'holds' if one['holds'] else reason or 'DOES NOT HOLD'}"
