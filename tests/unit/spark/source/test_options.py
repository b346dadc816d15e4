"""Options are the connector's, and a wrong one is told in one sentence."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from bmq.spark.source.options import (
    EARLIEST,
    LATEST,
    AtTimestamp,
    BadOption,
    EachOffset,
    Everywhere,
    ReadOptions,
    Subscription,
    columns_of,
    read_options,
)

pytestmark = pytest.mark.unit

SERVERS = {"kafka.bootstrap.servers": "proxy-1:9092, proxy-2"}


def parsed(is_stream: bool = False, **options: str) -> ReadOptions:
    return read_options({**SERVERS, "subscribe": "orders", **options}, is_stream=is_stream)


def test_defaults_are_the_connectors() -> None:
    batch, stream = parsed(), parsed(is_stream=True)
    assert batch.bootstrap == (("proxy-1", 9092), ("proxy-2", 9092))
    assert (batch.starting, batch.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert stream.starting == Everywhere(LATEST)
    assert batch.fail_on_data_loss and not batch.is_committed and batch.min_partitions == 1
    assert batch.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert batch.subscription == Subscription(topics=("orders",))
    assert (stream.offsets_per_trigger, stream.bytes_per_trigger) == (None, None)


def test_patience() -> None:
    assert (parsed().plan_timeout_s, parsed().poll_timeout_s, parsed().request_timeout_s) == (60, 120, 30)
    given = parsed(**{"kafkaConsumer.pollTimeoutMs": "5000"})  # type: ignore[arg-type]
    assert (given.plan_timeout_s, given.poll_timeout_s) == (5, 5)


def test_topic_ids() -> None:
    assert parsed().topic_ids == {}
    ids = parsed(**{"bmq.topic.ids": '{"orders":"AAECAwQFBgcICQoLDA0O_w"}'}).topic_ids  # type: ignore[arg-type]
    assert ids == {"orders": UUID("00010203-0405-0607-0809-0a0b0c0d0eff")}
    for wrong in ("x", "[]", '{"orders":5}', '{"orders":"AAEC"}', '{"orders":"AAECAwQFBgcICQoLDA0O!w"}'):
        with pytest.raises(BadOption, match=r"bmq.topic.ids (is|has) "):
            parsed(**{"bmq.topic.ids": wrong})  # type: ignore[arg-type]


def test_so_many_partitions_are_no_plan() -> None:
    assert parsed(minPartitions="100000").min_partitions == 100_000
    with pytest.raises(BadOption, match="100000 at most"):
        parsed(minPartitions="100001")


def test_subscriptions() -> None:
    listed = read_options({**SERVERS, "subscribe": "a, b ,a"}, is_stream=False).subscription
    assert listed.names == ("a", "b") and listed.takes("a") and not listed.takes("ab")
    pattern = read_options({**SERVERS, "SubscribePattern": "a.*"}, is_stream=False).subscription
    assert pattern.names is None and pattern.takes("abc") and not pattern.takes("ba")
    assigned = read_options({**SERVERS, "assign": '{"a":[1,0],"b":[2]}'}, is_stream=False).subscription
    assert assigned.partitions == (("a", 0), ("a", 1), ("b", 2)) and assigned.names == ("a", "b")


def test_offsets_and_times() -> None:
    assert parsed(startingOffsets='{"orders":{"0":23,"1":-2}}').starting == EachOffset(
        {("orders", 0): 23, ("orders", 1): EARLIEST}
    )
    assert parsed(endingOffsets="LATEST").ending == Everywhere(LATEST)
    times = parsed(startingOffsetsByTimestamp='{"orders":{"0":5}}', startingOffsets="earliest").starting
    assert isinstance(times, AtTimestamp) and times.of(("orders", 0)) == 5
    everywhere = parsed(startingTimestamp="7", startingOffsetsByTimestamp='{"orders":{"0":5}}').starting
    assert isinstance(everywhere, AtTimestamp) and everywhere.of(("other", 3)) == 7


def test_columns() -> None:
    assert columns_of({"columns": "offset, TIMESTAMPTYPE"}) == ("offset", "timestampType")
    assert columns_of({"columns": "offset", "includeHeaders": "true"}) == ("offset", "headers")
    assert columns_of({"INCLUDEHEADERS": "True"})[-1] == "headers"


def test_sizes_and_limits() -> None:
    options = parsed(is_stream=True, maxBytesPerTrigger="64m", maxOffsetsPerTrigger="1000", maxBytesPerPartition="5")
    assert (options.bytes_per_trigger, options.offsets_per_trigger, options.bytes_per_partition) == (64 << 20, 1000, 5)
    assert parsed(maxOffsetsPerTrigger="1000").offsets_per_trigger is None, "a batch read passes over it"


@pytest.mark.parametrize(
    ("options", "is_stream", "sentence"),
    [
        ({}, False, "one of subscribe, subscribePattern and assign is needed, none is given"),
        ({"subscribe": "a", "assign": '{"a":[0]}'}, False, "subscribe and assign are given"),
        ({"subscribe": "a b"}, False, "'a b' contains"),
        ({"subscribe": " , "}, False, "names no topic"),
        ({"subscribePattern": "("}, False, "no regular expression"),
        ({"assign": "[1]"}, False, "assign is '[1]': it is written {\"topic\":[0,1]}"),
        ({"assign": '{"a":["0"]}'}, False, "assign has"),
        ({"subscribe": "a", "startingOffset": "earliest"}, False, "no option 'startingoffset'"),
        ({"subscribe": "a", "startingOffsets": "soon"}, False, "startingOffsets is 'soon'"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-3}}'}, False, "startingOffsets has -3"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":true}}'}, False, "startingOffsets has True"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"x":1}}'}, False, "partition 'x'"),
        ({"subscribe": "a", "startingOffsets": "latest"}, False, "starts at the end"),
        ({"subscribe": "a", "startingOffsets": '{"a":{"0":-1}}'}, False, "starts at the end"),
        ({"subscribe": "a", "endingOffsets": "earliest"}, False, "ends at the beginning"),
        ({"subscribe": "a", "endingOffsets": "latest"}, True, "endingOffsets is for batch reads"),
        ({"subscribe": "a", "startingTimestamp": "yesterday"}, False, "milliseconds since 1970"),
        (
            {"subscribe": "a", "startingOffsetsByTimestamp": '{"a":{"0":-1}}'},
            False,
            "startingOffsetsByTimestamp has -1",
        ),
        ({"subscribe": "a", "startingTimestamp": str(1 << 63)}, False, "milliseconds since 1970"),
        (
            {"subscribe": "a", "endingOffsetsByTimestamp": f'{{"a":{{"0":{1 << 63}}}}}'},
            False,
            "endingOffsetsByTimestamp has",
        ),
        ({"subscribe": "a", "startingOffsets": f'{{"a":{{"0":{1 << 63}}}}}'}, False, "startingOffsets has"),
        ({"subscribe": "a", "assign": '{"a":[' + "9" * 5000 + "]}"}, False, "one of subscribe"),
        ({"assign": "[" * 100_000}, False, "assign is"),
        ({"subscribe": "a", "kafka.request.timeout.ms": str(1 << 31)}, False, "kafka.request.timeout.ms is"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "a:" + "9" * 5000}, False, "a list of HOST:PORT"),
        ({"subscribe": "a", "maxBytesPerPartition": "9" * 5000}, False, "a number of bytes"),
        ({"subscribe": "a", "maxOffsetsPerTrigger": "9" * 5000}, True, "a number from 1 on"),
        ({"subscribe": "a", "startingOffsetsByTimestampStrategy": "x"}, False, "it is error or latest"),
        ({"subscribe": "a", "failOnDataLoss": "no"}, False, "failOnDataLoss is 'no': it is true or false"),
        ({"subscribe": "a", "minPartitions": "0"}, False, "a number from 1 on"),
        ({"subscribe": "a", "maxBytesPerPartition": "1 mile"}, False, "a number of bytes"),
        ({"subscribe": "a", "columns": "offset,size"}, False, "columns has 'size': there are key, value"),
        ({"subscribe": "a", "columns": "offset,Offset"}, False, "twice"),
        ({"subscribe": "a", "kafka.auto.offset.reset": "earliest"}, False, "use startingOffsets"),
        ({"subscribe": "a", "kafka.security.protocol": "SSL"}, False, "does not log in to proxies; name a listener"),
        ({"subscribe": "a", "kafka.isolation.level": "none"}, False, "read_committed or read_uncommitted"),
        ({"subscribe": "a", "kafka.bootstrap.servers": ""}, False, "kafka.bootstrap.servers is missing"),
        ({"subscribe": "a", "kafka.bootstrap.servers": "a:b"}, False, "a list of HOST:PORT"),
        ({"subscribe": "a", "kafka.request.timeout.ms": "soon"}, False, "kafka.request.timeout.ms is 'soon'"),
        ({"subscribe": "a", "minOffsetsPerTrigger": "5"}, True, "minOffsetsPerTrigger is not served"),
    ],
)
def test_a_wrong_option_is_one_sentence(options: dict[str, Any], is_stream: bool, sentence: str) -> None:
    with pytest.raises(BadOption) as refused:
        read_options({**SERVERS, **options}, is_stream=is_stream)
    assert sentence in str(refused.value) and "\n" not in str(refused.value)


def test_what_has_no_effect_here_is_accepted() -> None:
    parsed(**{"groupIdPrefix": "a", "kafka.group.id": "b", "kafka.fetch.max.bytes": "5", "fetchOffset.numRetries": "3"})  # type: ignore[arg-type]
