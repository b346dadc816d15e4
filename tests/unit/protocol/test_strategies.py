"""What a failed example shrinks to: the least message of each version, and the least record."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import find, settings

from bmq.protocol import codec
from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.wire import Entity
from tests.support.gate_share import few_in_gate
from tests.unit.arrow_records.strategies import LEAST_RECORD, RECORDS
from tests.unit.protocol.strategies import api_messages, least_message

pytestmark = pytest.mark.unit
in_campaign = pytest.mark.campaign("unit")

ALONE = settings(database=None)


def assert_least(message: Any, entity: Entity) -> None:
    for field in entity.fields:
        value = getattr(message, field.name)
        if field.tag is not None and field.entity is None:
            assert value == field.default
        elif field.is_nullable:
            assert value is None
        elif field.entity is not None and not field.is_array:
            assert_least(value, field.entity)
        else:
            assert not value, "empty or zero"


@pytest.mark.parametrize("kind", ["request", "response"])
@few_in_gate("api_key", APIS, every=5, others=in_campaign)
def test_the_least_message_is_written_and_read_back_in_every_version(api_key: ApiKey, kind: str) -> None:
    for version in range(APIS[api_key].version_min, APIS[api_key].version_max + 1):
        entity = codec.message_format(kind, api_key).entity(version)
        message = least_message(entity)
        assert_least(message, entity)
        assert codec.decode(kind, api_key, version, codec.encode(kind, api_key, version, message)) == message


@pytest.mark.parametrize("api_key", [ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.METADATA])
def test_a_message_shrinks_to_the_least(api_key: ApiKey) -> None:
    version = APIS[api_key].version_max
    least = least_message(codec.message_format("request", api_key).entity(version))
    assert find(api_messages("request", api_key, version), lambda _: True, settings=ALONE) == least


def test_a_record_shrinks_to_the_least() -> None:
    assert find(RECORDS, lambda _: True, settings=ALONE) == LEAST_RECORD
