"""Deciding about tables, and a controller that keeps what was decided over its own end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from uuid import UUID

import pytest

from bmq.admin.tables import Tables
from bmq.controller import tables
from bmq.controller.decision import Decision
from bmq.controller.tables import (
    TableChange,
    TableRefused,
    UnknownTable,
    decide_alter_table,
    decide_create_table,
    decide_drop_table,
    find_table,
)
from bmq.log.partition_log import TopicPartition
from bmq.metadata.image import MetadataImage, Node, TopicImage, ViewImage
from bmq.protocol.metadata_records import ConfigRecord, decode_record, encode_record
from bmq.table_definitions.definition import InvalidDefinition, TableDefinition
from bmq.table_definitions.evolution import AlterationRefused
from bmq.table_definitions.progress import JobState, Progress, ReportRefused
from bmq.table_definitions.stored import UnreadableTable
from tests.fakes.cluster_controller import image_of, topic_image
from tests.unit.controller.controller_lab import ControllerLab, on_virtual_time
from tests.unit.table_definitions.definitions import definition, json_form

pytestmark = pytest.mark.unit

ID = UUID(int=77)
NOTE = {"name": "note", "type": "string"}


@pytest.fixture
def image() -> MetadataImage:
    topics = [topic_image(name, number, [1, 1]) for number, name in enumerate(("shop.orders", "__consumer_offsets"))]
    return image_of([Node(1, "h", 1)], topics)


def taken(image: MetadataImage, decision: Decision[Any]) -> MetadataImage:
    """The image with the records, as the log gives them back."""
    found = dict(image.tables)
    for record in decision.records:
        again = decode_record(encode_record(record))
        assert again == record
        assert isinstance(again, ConfigRecord)
        if again.value is None:
            del found[again.resource_name]
        else:
            found[again.resource_name] = again.value
    return replace(image, tables=found)


def with_view(image: MetadataImage) -> tuple[MetadataImage, TopicImage]:
    """A view of shop.orders, and the image with it."""
    base = image.topics["shop.orders"]
    shown = ViewImage(base.name, base.topic_id, "tag = 'paid'")
    view = replace(base, name="shop.paid", topic_id=UUID(int=9), view=shown)
    return replace(image, topics={**image.topics, view.name: view}), view


def with_table(image: MetadataImage, **changed: Any) -> MetadataImage:
    return taken(image, decide_create_table(image, definition(**changed), ID, 5))


def test_a_table_is_made_altered_and_dropped(image: MetadataImage) -> None:
    decision = decide_create_table(image, definition(), ID, 5)
    assert decision.response.summary == "Table orders is made of topic shop.orders (2 partitions)."
    assert decision.response.is_new
    image = taken(image, decision)
    table = find_table(image, "orders")
    assert (table.table_id, table.topic_id, table.version) == (ID, image.topics["shop.orders"].topic_id, 1)
    assert (table.created_at_ms, table.altered_at_ms, table.definition) == (5, 5, definition())

    more = definition(fields=[*json_form()["fields"], NOTE])
    decision = decide_alter_table(image, "orders", more, 9)
    assert decision.response.changes == ("field note (string) is added; rows that are there have null",)
    image = taken(image, decision)
    altered = find_table(image, "orders")
    assert (altered.table_id, altered.version, altered.created_at_ms, altered.altered_at_ms) == (ID, 2, 5, 9)
    assert altered.definition == more

    dropped = decide_drop_table(image, "orders")
    assert dropped.response == "The definition of table orders is dropped; its rows stay where they are."
    assert taken(image, dropped).tables == {}


def test_what_is_so_already_writes_nothing(image: MetadataImage) -> None:
    image = with_table(image)
    again = decide_create_table(image, definition(), UUID(int=78), 9)
    assert again.records == ()
    assert again.response == TableChange("Table orders is there already.", find_table(image, "orders"))
    decision = decide_alter_table(image, "orders", definition(dead_letter="orders_dead_letter"), 9)
    assert decision.records == ()
    assert decision.response.summary == "Table orders is so already: nothing changes."


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"topic": "none"}, "there is no topic none; create it first"),
        ({"topic": "__consumer_offsets"}, "topic __consumer_offsets is bmq's own, and no table is made of it"),
        ({"name": "taken", "misfits": "stop"}, "there is a table taken already, and it is another one; alter it, or drop it first"),
        ({"name": "taken_dead_letter"}, "taken_dead_letter is the dead-letter table of taken, and two jobs must not write one"),
        ({"dead_letter": "taken"}, "taken is table taken, and two jobs must not write one table; choose another name"),
        ({"dead_letter": "taken_dead_letter"}, "taken_dead_letter is the dead-letter table of taken, and two"),
    ],
)  # fmt: skip
def test_what_is_refused(image: MetadataImage, changed: dict[str, Any], sentence: str) -> None:
    image = with_table(image, name="taken")
    with pytest.raises(TableRefused) as caught:
        decide_create_table(image, definition(**changed), ID, 5)
    assert str(caught.value).startswith(sentence)


def test_table_of_a_view_is_tied_to_the_views_id(image: MetadataImage) -> None:
    image, view = with_view(image)
    made = decide_create_table(image, definition(topic="shop.paid"), ID, 5).response
    assert made.summary == "Table orders is made of shop.paid, a view of topic shop.orders (2 partitions)."
    assert made.table.topic_id == view.topic_id, "a view that is made again, with another filter, is another topic"


def test_a_dead_letter_table_must_not_become_anothers(image: MetadataImage) -> None:
    image = with_table(with_table(image, name="first"), name="second", misfits="stop")
    with pytest.raises(TableRefused, match="first_dead_letter is the dead-letter table of first"):
        decide_alter_table(image, "second", definition(name="second", dead_letter="first_dead_letter"), 9)


def test_tables_that_are_not_there(image: MetadataImage) -> None:
    for decide in (
        lambda: decide_alter_table(image, "orders", definition(), 5),
        lambda: decide_drop_table(image, "orders"),
    ):
        with pytest.raises(UnknownTable, match="there is no table orders"):
            decide()


def test_an_alteration_that_may_not_be(image: MetadataImage) -> None:
    with pytest.raises(AlterationRefused, match="field city is missing"):
        decide_alter_table(
            with_table(image), "orders", definition(fields=json_form()["fields"][:1] + json_form()["fields"][2:]), 9
        )


def test_there_are_limits(image: MetadataImage, monkeypatch: pytest.MonkeyPatch) -> None:
    image = with_table(image, name="one")
    monkeypatch.setattr(tables, "TABLES_MAX", 1)
    with pytest.raises(TableRefused, match="there are 1 tables, and no more may be; drop one first"):
        with_table(image, name="two")
    monkeypatch.setattr(tables, "TABLES_MAX", 2)
    monkeypatch.setattr(tables, "TABLES_CHARACTERS_MAX", 1_500)
    with pytest.raises(TableRefused, match="all tables together would have more than 1500 characters; drop one first"):
        with_table(image, name="two")
    monkeypatch.setattr(tables, "DEFINITION_BYTES_MAX", 500)
    with pytest.raises(InvalidDefinition, match=r"the definition has [0-9]+ characters, 500 are allowed"):
        with_table(image, name="two")


def test_a_table_of_a_later_release_can_be_dropped_and_nothing_else(image: MetadataImage) -> None:
    text = with_table(image).tables["orders"].replace('"version":1', '"version":1,"colour":"red"')
    image = replace(image, tables={"orders": text})
    with pytest.raises(UnreadableTable, match=r"a later release of bmq wrote this table, .* there is no key colour"):
        find_table(image, "orders")
    with pytest.raises(UnreadableTable):
        decide_alter_table(image, "orders", definition(), 9)
    assert "other" in with_table(image, name="other").tables
    assert taken(image, decide_drop_table(image, "orders")).tables == {}


class Ends:
    """A controller that knows the ends of logs, by the id of their topic."""

    def __init__(self, image: MetadataImage, ends: Mapping[UUID, int]) -> None:
        self.image, self.ends = image, ends

    def now_ms(self) -> int:
        return 7

    def end_offset(self, topic_id: UUID, number: int) -> int:
        return self.ends.get(topic_id, 0)


def test_lag_of_a_table_of_a_view_is_counted_in_its_bases_offsets(image: MetadataImage) -> None:
    image, view = with_view(image)
    image = replace(with_table(image, topic=view.name), topics_by_id={view.topic_id: view})
    controller = cast(Any, Ends(image, {view.log_id: 40}))
    here = Tables(lambda: controller, lambda place: 60 if place == TopicPartition(view.log_id, 1) else None)
    report = Progress(ID, view.topic_id, JobState.RUNNING, {0: 30, 1: 50}, rows=3)
    lags = here.report("orders", report).lags
    assert [(each.offset, each.end_offset, each.lag) for each in lags] == [(30, 40, 10), (50, 60, 10)]


@on_virtual_time
async def test_tables_outlive_the_controller_and_reports_do_not() -> None:
    lab = ControllerLab()
    no_log = lambda topic_partition: None  # noqa: E731
    async with lab.controller() as controller:
        (node,) = await lab.join(1)
        await lab.create("shop.orders", 2)
        ordered = Tables(lambda: controller, no_log)
        change = await ordered.create(definition(), is_dry_run=True)
        assert change.is_new
        assert lab.image.tables == {}
        table = (await ordered.create(definition())).table
        assert table.table_id.version == 4
        await node.report(40)
        report = Progress(table.table_id, table.topic_id, JobState.RUNNING, {0: 30, 1: 50}, rows=80)
        status = ordered.report("orders", report)
        assert status.report is report
        assert [(each.offset, each.end_offset, each.lag) for each in status.lags] == [(30, 40, 10), (50, 50, 0)]
        with pytest.raises(ReportRefused, match="this job writes another table orders than the one of now"):
            ordered.report("orders", replace(report, table_id=ID))
        with pytest.raises(ReportRefused, match=r"this job reads another topic shop.orders than the one that table"):
            ordered.report("orders", replace(report, topic_id=ID))
    async with lab.controller() as controller:
        assert find_table(controller.image, "orders") == table
        await lab.join(1)
        here = Tables(lambda: controller, no_log)
        status = here.status("orders")
        assert (status.report, status.reported_at_ms, [each.offset for each in status.lags]) == (
            None,
            None,
            [None, None],
        )
        more = TableDefinition.model_validate({**json_form(), "fields": [*json_form()["fields"], NOTE]})
        assert (await here.alter("orders", more)).table.version == 2
        assert "dropped" in await here.drop("orders", is_dry_run=True)
        await here.drop("orders")
        assert controller.image.tables == {}
        with pytest.raises(UnknownTable):
            here.status("orders")
