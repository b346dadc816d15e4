"""Decisions about channels: what is created, replaced, deleted and refused, and the records that say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bmq.channels.channel import Channel, InvalidChannel
from bmq.channels.channel_set import CHANNELS_MAX
from bmq.channels.stored import StoredChannel, stored_channel, stored_set
from bmq.controller import channels as decisions
from bmq.controller.channels import (
    ChannelRefused,
    UnknownChannel,
    decide_delete_channel,
    decide_put_channel,
    find_channel,
    topic_problem,
)
from bmq.metadata.image import MetadataImage, ViewImage
from bmq.metadata.state import MetadataState
from bmq.protocol.metadata_records import RESOURCE_TYPE_CHANNEL, ConfigRecord, TopicRecord, decode_record, encode_record
from tests.fakes.cluster_controller import image_of, topic_image
from tests.unit.channels.channels import channel

pytestmark = pytest.mark.unit

ORDERS = topic_image("orders", 1, [1])
VIEW = replace(topic_image("paid", 2, [1]), view=ViewImage("orders", ORDERS.topic_id, "TRUE"))
INTERNAL = topic_image("__consumer_offsets", 3, [1])
LATER_TEXT = '{"version": 1, "created_at_ms": 0, "altered_at_ms": 0, "channel": {"name": "clicks"}, "colour": 1}'


def orders(**changed: object) -> Channel:
    return channel(topic="orders", **changed)


def image_with(*known: Channel, version: int = 0, texts: dict[str, str] | None = None) -> MetadataImage:
    stored = {
        each.name: StoredChannel(version=number, created_at_ms=5, altered_at_ms=5, channel=each).to_text()
        for number, each in enumerate(known, 1)
    }
    return replace(
        image_of((), [ORDERS, VIEW, INTERNAL]),
        channels={**stored, **(texts or {})},
        channels_version=version or len(known),
    )


def test_a_channel_from_its_creation_to_its_end() -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(TopicRecord(name="orders", topic_id=ORDERS.topic_id))
    made = decide_put_channel(state.image_at(1), orders(), 1_000)
    assert (made.response.summary, made.response.is_new) == ("Channel clicks leads to topic orders.", True)
    assert [record.resource_type for record in made.records if isinstance(record, ConfigRecord)] == [126, 126]
    for record in made.records:
        state.replay(decode_record(encode_record(record)))
    image = state.image_at(2)
    assert (image.channels_version, find_channel(image, "clicks")) == (1, made.response.stored)

    changed = decide_put_channel(image, orders(linger_ms=5, key={"by": "header", "header": "user"}), 2_000)
    assert changed.response.summary == "Channel clicks changes; agents follow at once."
    assert changed.response.changes == ("key is by header, header user; it was by none", "linger_ms is 5; it was 100")
    for record in changed.records:
        state.replay(record)
    stored = find_channel(state.image_at(3), "clicks")
    assert (stored.version, stored.created_at_ms, stored.altered_at_ms) == (2, 1_000, 2_000)

    for record in decide_delete_channel(state.image_at(3), "clicks").records:
        state.replay(record)
    gone = state.image_at(4)
    assert (gone.channels, gone.channels_version) == ({}, 3)
    with pytest.raises(UnknownChannel, match="there is no channel clicks"):
        find_channel(gone, "clicks")


def test_a_snapshot_has_the_channels_and_their_version() -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(TopicRecord(name="orders", topic_id=ORDERS.topic_id))
    for each in (orders(), orders(name="views"), orders(name="views", enabled=False)):
        for record in decide_put_channel(state.image_at(1), each, 1_000).records:
            state.replay(record)
    loaded = MetadataState("cluster", 1, {})
    loaded.replay_snapshot(state.snapshot())
    image = loaded.image_at(1)
    assert (image.channels, image.channels_version) == (state.image_at(1).channels, 3)
    assert stored_set(image.channels, image.channels_version).channels["views"].enabled is False


def test_an_image_without_a_change_of_channels_has_the_same_ones() -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(TopicRecord(name="orders", topic_id=ORDERS.topic_id))
    for record in decide_put_channel(state.image_at(1), orders(), 1_000).records:
        state.replay(record)
    first = state.image_at(2)
    state.replay(TopicRecord(name="clicks", topic_id=VIEW.topic_id))
    assert state.image_at(3).channels is first.channels


def test_a_version_that_is_no_number_reads_as_none() -> None:
    state = MetadataState("cluster", 1, {})
    state.replay(ConfigRecord(resource_type=RESOURCE_TYPE_CHANNEL, resource_name="", name="version", value="later: 7"))
    assert state.image_at(1).channels_version == 0


def test_the_same_again_changes_nothing() -> None:
    again = decide_put_channel(image_with(orders()), orders(), 9, if_version=0)
    assert (again.records, again.response.summary, again.response.is_new) == (
        (),
        "Channel clicks is so already.",
        False,
    )


@pytest.mark.parametrize(
    ("topic", "sentence"),
    [
        ("none", "there is no topic none; create it first, or ask for it with create_topic"),
        ("paid", "paid is a view of topic orders, and nothing is written to a view"),
    ],
)
def test_topics_that_take_no_records(topic: str, sentence: str) -> None:
    image = image_with()
    with pytest.raises(ChannelRefused) as caught:
        decide_put_channel(image, channel(topic=topic), 0)
    assert str(caught.value) == sentence == topic_problem(image, topic)


def test_a_topic_that_will_be_created_may_be_missing_and_a_view_may_not() -> None:
    image = image_with()
    assert decide_put_channel(image, channel(topic="none"), 0, is_topic_coming=True).records
    with pytest.raises(ChannelRefused):
        decide_put_channel(image, channel(topic="paid"), 0, is_topic_coming=True)


def test_bmqs_own_topics_take_no_records() -> None:
    assert topic_problem(image_with(), "__consumer_offsets") == (
        "topic __consumer_offsets is bmq's own, and applications do not write to it"
    )
    assert topic_problem(image_with(), "orders") is None


def test_a_channel_whose_topic_was_deleted_can_be_altered_and_led_elsewhere() -> None:
    image = image_with(channel(topic="gone"))
    assert topic_problem(image, "gone") == "there is no topic gone; create it first, or ask for it with create_topic"
    assert decide_put_channel(image, channel(topic="gone", enabled=False), 0).response.changes == (
        "enabled is false; it was true",
    )
    assert decide_put_channel(image, orders(), 0).response.changes == ("topic is orders; it was gone",)


def test_somebody_else_was_quicker() -> None:
    image = image_with(orders(), version=8)
    changed = orders(linger_ms=5)
    assert decide_put_channel(image, changed, 0, if_version=1).records
    for if_version, sentence in (
        (0, "there is a channel clicks already, and it is another one; alter it, or delete it first"),
        (2, "channel clicks has version 1, not 2: it was changed; look at it, and try again"),
    ):
        with pytest.raises(ChannelRefused) as caught:
            decide_put_channel(image, changed, 0, if_version=if_version)
        assert str(caught.value) == sentence
        with pytest.raises(ChannelRefused):
            decide_delete_channel(image, "clicks", if_version=if_version)
    with pytest.raises(ChannelRefused, match="there is no channel b any more; it was deleted"):
        decide_put_channel(image, orders(name="b"), 0, if_version=1)
    assert decide_put_channel(image, orders(name="b"), 0, if_version=0).response.version == 9


def test_a_channel_of_a_later_release_can_be_replaced_and_deleted() -> None:
    image = image_with(texts={"clicks": LATER_TEXT}, version=4)
    known = stored_set(image.channels, 4)
    assert known.unreadable["clicks"].startswith(
        "a later release of bmq wrote this channel, and this one cannot read it"
    )
    replaced = decide_put_channel(image, orders(), 0).response
    assert replaced.summary == "Channel clicks leads to topic orders, and replaces one that this release cannot read."
    assert decide_delete_channel(image, "clicks").response.version == 5
    with pytest.raises(ChannelRefused, match="has a version that this release cannot read, not 3"):
        decide_delete_channel(image, "clicks", if_version=3)


def test_what_is_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    full = image_with(texts={f"c{number}": "{}" for number in range(CHANNELS_MAX)})
    with pytest.raises(ChannelRefused, match="there are 1000 channels, and no more may be; delete one first"):
        decide_put_channel(full, orders(), 0)
    monkeypatch.setattr(decisions, "SET_BYTES_MAX", 700)
    image = image_with(orders(name="a"))
    with pytest.raises(ChannelRefused, match="all channels together would have more than 700 bytes"):
        decide_put_channel(image, orders(name="b"), 0)
    assert decide_put_channel(image, orders(name="a", enabled=False), 0).records
    monkeypatch.setattr(decisions, "STORED_BYTES_MAX", 100)
    with pytest.raises(InvalidChannel, match=r"the channel has \d+ bytes as JSON, 100 are allowed"):
        decide_put_channel(image, orders(name="a", enabled=False), 0)


def test_long_values_are_cut_where_a_change_is_told() -> None:
    schema = '{"description": "' + "x" * 100 + '"}'
    change = decide_put_channel(
        image_with(orders()), orders(schema_check="json_schema", json_schema=schema), 0
    ).response
    assert change.changes[1] == f"json_schema is {schema[:60]}… (119 characters); it was not set"
    assert change.stored is not None
    assert stored_channel(change.stored.to_text()) == change.stored
