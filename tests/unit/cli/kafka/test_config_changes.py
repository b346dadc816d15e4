"""Changes of configs as they are written on a command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.cli.kafka.config_changes import BadChange, parse_changes, plan_lines
from bmq.cli.kafka.model import Config, ConfigChange

pytestmark = pytest.mark.unit

NAMES = st.from_regex(r"[a-z]([a-z.-]{0,10}[a-z])?", fullmatch=True)


@given(NAMES, st.sampled_from([("=", "set"), ("+=", "append"), ("-=", "subtract")]), st.text())
def test_any_value_is_kept_as_it_is_written(name: str, form: tuple[str, str], value: str) -> None:
    sign, operation = form
    (change,) = parse_changes([f"{name}{sign}{value}"])
    assert (change.name, change.operation, change.value) == (name, operation, value)


@pytest.mark.parametrize("text", ["", "=", "name", "a b=c", "=value", "+=x", "né=1"])
def test_what_is_no_change_is_refused(text: str) -> None:
    with pytest.raises(BadChange, match="is not NAME=VALUE"):
        parse_changes([text])


def test_a_name_is_changed_once() -> None:
    with pytest.raises(BadChange, match="a is changed twice"):
        parse_changes(["a=1"], ["a"])


def test_a_plan_hides_what_is_secret() -> None:
    changes = parse_changes(["secret=new", "none=1", "list-=a"], ["plain"])
    present = [
        Config("secret", None, "broker", is_sensitive=True),
        Config("plain", "", "topic"),
        Config("list", "a,b", "default"),
    ]
    assert changes[-1] == ConfigChange("plain", "delete", None)
    assert plan_lines(changes, present) == [
        "secret: (hidden) -> (hidden)",
        "none: (none) -> 1",
        "list: a,b (default), without a",
        'plain: "" -> what it is without this setting',
    ]
