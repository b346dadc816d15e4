"""Which catalogs a job writes into, and the sentences of refusals."""

from __future__ import annotations

import pytest

from bmq.spark.tables.catalog_options import (
    catalog_words,
    check_lock,
    checked_options,
    compares_references_only,
    shown,
)
from bmq.spark.tables.errors import TableMismatch

pytestmark = pytest.mark.unit

THRIFT = {"type": "hive", "uri": "thrift://a:9083,thrift://b:9083", "warehouse": "hdfs://nn/w"}


def test_waits_for_a_service_are_bounded_unless_options_say_how() -> None:
    rest = checked_options({"type": "REST", "uri": "https://c/api"})
    assert rest["type"] == "rest"
    assert rest["rest.client.socket-timeout-ms"] == "60000"
    mine = checked_options({"type": "rest", "uri": "http://c:1", "rest.client.socket-timeout-ms": "5"})
    assert mine["rest.client.socket-timeout-ms"] == "5"
    assert checked_options(THRIFT)["hadoop.hive.metastore.client.socket.timeout"] == "60s"
    assert checked_options({"type": "hadoop", "warehouse": "/w"}) == {"type": "hadoop", "warehouse": "/w"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({}, "it has no type; name type=hadoop|hive|rest"),
        ({"type": "delta"}, "delta is no type of catalog that tables are written into"),
        ({"type": "rest"}, "a catalog of type rest needs the option uri"),
        ({"type": "hive", "uri": "thrift://m"}, "a catalog of type hive needs the option warehouse"),
        ({"type": "hadoop"}, "needs the option warehouse"),
        ({"type": "rest", "uri": "thrift://c:1"}, "has to begin with http://HOST or https://HOST: thrift://c:1"),
        ({"type": "rest", "uri": "http://"}, "has to begin with http://HOST"),
        ({"type": "rest", "uri": "http://[c"}, "has to begin with http://HOST"),
        ({**THRIFT, "uri": "thrift://a,http://b"}, "has to begin with thrift://HOST: http://b"),
        ({"type": "rest", "uri": "http://me:s3cret@c"}, "has a login in it"),
        ({"type": "hadoop", "warehouse": "s3a://b/w"}, "directories on s3a cannot refuse a second commit"),
        ({"catalog-impl": "a.B"}, "a catalog by its class .a.B. is not known to refuse"),
        ({**THRIFT, "hadoop.iceberg.engine.hive.lock-enabled": "false"}, "without Hive's lock"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(TableMismatch, match=sentence) as raised:
        checked_options(options)
    assert "\n" not in str(raised.value) and "s3cret" not in str(raised.value)


def test_a_table_in_a_metastore_keeps_hives_lock() -> None:
    assert checked_options(THRIFT)["hadoop.iceberg.engine.hive.lock-enabled"] == "true"
    off = {"engine.hive.lock-enabled": "False"}
    check_lock(THRIFT, {}, "orders")
    check_lock(THRIFT, {"engine.hive.lock-enabled": "true"}, "orders")
    check_lock({"type": "rest", "uri": "http://c"}, off, "orders")
    with pytest.raises(TableMismatch, match=r"table orders has the property engine\.hive\.lock-enabled=False, and"):
        check_lock(THRIFT, off, "orders")


def test_directories_with_a_lock_of_their_own_may_be_anywhere() -> None:
    checked_options({"type": "hadoop", "warehouse": "s3a://b/w", "lock-impl": "a.Lock"})


def test_only_a_rest_catalog_compares_references_alone() -> None:
    assert compares_references_only({"type": "rest"})
    assert not compares_references_only(THRIFT)


def test_words_for_people_have_no_secrets() -> None:
    assert catalog_words(THRIFT).endswith("type hive at thrift://a:9083,thrift://b:9083")
    assert catalog_words({"type": "hadoop", "warehouse": "/w"}) == "the catalog of type hadoop at /w"
    assert shown("credential", "me:s3cret") == shown("s3.secret-access-key", "s3cret") == "another one"
    assert shown("warehouse", "/w") == "/w"
