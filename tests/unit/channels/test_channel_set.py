"""All channels at one version: changes, JSON, and what a later release wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bmq.channels.channel import InvalidChannel
from bmq.channels.channel_set import CHANNELS_MAX, ChannelSet, channel_set_to_json, parse_channel_set
from tests.unit.channels.channels import channel

pytestmark = pytest.mark.unit


def test_each_change_is_a_new_version() -> None:
    first = ChannelSet().with_channel(channel())
    changed = first.with_channel(channel(linger_ms=5))
    gone = changed.without("clicks")
    assert [each.version for each in (first, changed, gone)] == [1, 2, 3]
    assert (first.channels["clicks"].linger_ms, changed.channels["clicks"].linger_ms) == (100, 5)
    assert gone.channels == {}


def test_json_gives_the_same_set() -> None:
    both = ChannelSet(7).with_channel(channel(name="b")).with_channel(channel(name="a", sampling_rate=0.25))
    form = json.loads(json.dumps(channel_set_to_json(both)))
    assert [each["name"] for each in form["channels"]] == ["a", "b"]
    assert parse_channel_set(form) == both
    assert parse_channel_set({**form, "added_later": 1}) == both


def test_a_channel_of_a_later_release_does_not_hold_up_the_others() -> None:
    form = channel_set_to_json(ChannelSet().with_channel(channel(name="a")).with_channel(channel(name="b")))
    form["channels"][1]["encryption"] = "aes"
    known = parse_channel_set(form)
    assert set(known.channels) == {"a"}
    assert known.unreadable == {"b": "there is no key encryption"}
    assert parse_channel_set(json.loads(json.dumps(channel_set_to_json(known)))) == known
    assert known.with_channel(channel(name="b")).unreadable == {}
    assert known.without("b").unreadable == {}


@pytest.mark.parametrize(
    ("form", "sentence"),
    [
        ({}, "version: a whole number from 0 on is wanted"),
        ({"version": True, "channels": []}, "version: a whole number from 0 on is wanted"),
        ({"version": -1, "channels": []}, "version: a whole number from 0 on is wanted"),
        ({"version": 1}, "channels: a list is wanted"),
        ({"version": 1, "channels": ["clicks"]}, "channels.0: an object with a name is wanted"),
        ({"version": 1, "channels": [{"topic": "a"}]}, "channels.0: an object with a name is wanted"),
        ({"version": 1, "channels": [{"name": "a"}, {"name": "a"}]}, "channels.1: 'a' is there more than once"),
        (
            {"version": 1, "channels": [], "unreadable": ["a"]},
            "unreadable: an object with a sentence for each name is wanted",
        ),
        ({"version": 1, "channels": [{}] * (CHANNELS_MAX + 1)}, "there are 1001 channels, 1000 are allowed"),
    ],
)
def test_what_is_no_set_is_one_sentence(form: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InvalidChannel) as caught:
        parse_channel_set(form)
    assert str(caught.value) == sentence
