"""Settings that cannot be right are refused with one sentence, whichever they are: a new one is among them by itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from bmq.server.setting_checks import is_any_address, misspelt_variables, ports_in_conflict, wrong_value
from bmq.server.settings import BadSettings, Settings, load_settings, require_usable_addresses

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith("BMQ_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def defaults() -> dict[str, Any]:
    return {origin.name: origin.value for origin in load_settings({}, None).origins}


def nested(name: str, value: object) -> dict[str, Any]:
    table, _, setting = name.partition(".")
    return {table: {setting: value}} if setting else {name: value}


NUMBERS = [name for name, value in defaults().items() if isinstance(value, int | float) and not isinstance(value, bool)]
CLOCKS = ("timeout", "interval", "backoff", "retry_first", "retry_min", "heartbeat")


@pytest.mark.parametrize("name", NUMBERS)
def test_no_number_is_negative(name: str) -> None:
    with pytest.raises(BadSettings, match=name.rpartition(".")[2]) as refused:
        load_settings(nested(name, -1), None)
    assert "\n" not in str(refused.value) and "command line" in str(refused.value)


@pytest.mark.parametrize("name", [name for name in NUMBERS if "." in name and any(word in name for word in CLOCKS)])
def test_no_loop_is_without_a_pause_and_no_request_without_time(name: str) -> None:
    if name == "cluster.report_interval_min_ms":
        load_settings(nested(name, 0), None)
        return
    with pytest.raises(BadSettings, match=r"must be|should be greater"):
        load_settings(nested(name, 0), None)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(BadSettings, match=r"hdfs\.rpc_timeout_s"):
        load_settings({"hdfs": {"rpc_timeout_s": value}}, None)


def test_a_lower_bound_is_not_above_its_upper_one() -> None:
    values = defaults()
    for low in values:
        for mark in ("_min_", "_first_"):
            if mark in low:
                high = low.replace(mark, "_max_")
                if high in values:
                    assert wrong_value({**values, low: values[high] + 1}) is not None, (low, high)
    with pytest.raises(BadSettings, match=r"router\.backoff_min_ms = 500 .*at most router\.backoff_max_ms"):
        load_settings({"router": {"backoff_min_ms": 500}}, None)


@pytest.mark.parametrize("name", ["advertised", "internal_advertised", "rest_advertised"])
@pytest.mark.parametrize("value", ["nonsense", "host:0", "host:70000", ":9092", "0.0.0.0:9092", "[::]:9092", "host:²"])
def test_an_advertised_address_can_be_connected_to(name: str, value: str) -> None:
    with pytest.raises(BadSettings, match=f"^setting {name} = "):
        load_settings({name: value}, None)
    load_settings({name: "[::1]:9092"}, None)


def node(**changes: Any) -> Settings:
    given = {"store": "hdfs://namenode/bmq", "zookeeper": "zk:2181"}
    return load_settings({**given, **changes}, None).settings


@pytest.mark.parametrize("everywhere", ["0.0.0.0:9000", "[::]:9000", ":::9000"])
def test_a_server_that_listens_everywhere_says_where_it_is_reached(everywhere: str) -> None:
    assert is_any_address(everywhere)
    for name, setting, is_node in (
        ("listen", "advertised", False),
        ("listen", "advertised", True),
        ("internal", "internal_advertised", True),
        ("rest", "rest_advertised", True),
    ):
        with pytest.raises(BadSettings, match=f"set {setting} to"):
            require_usable_addresses(node(**{name: everywhere}), is_node=is_node)
        require_usable_addresses(node(**{name: everywhere, setting: "host:9000"}), is_node=is_node)
    require_usable_addresses(node(rest=everywhere), is_node=False)  # it sends nobody elsewhere
    require_usable_addresses(node(listen=everywhere, roles="broker"), is_node=True)  # it has no such listener


def test_two_listeners_do_not_want_the_same_port() -> None:
    with pytest.raises(BadSettings, match="the same address"):
        require_usable_addresses(node(listen="127.0.0.1:8080"), is_node=False)
    with pytest.raises(BadSettings, match="leave 2 free"):
        require_usable_addresses(node(workers=2), is_node=True)
    require_usable_addresses(node(workers=2, internal="127.0.0.1:9192"), is_node=True)
    assert ports_in_conflict({"a": "127.0.0.1:0", "b": "127.0.0.1:0"}) is None
    assert ports_in_conflict({"a": "127.0.0.1:5", "b": "127.0.0.2:5"}) is None
    assert ports_in_conflict({"a": "0.0.0.0:5", "b": "127.0.0.2:5"}) is not None


def test_acknowledgements_by_more_replicas_than_there_are_can_never_come() -> None:
    with pytest.raises(BadSettings, match=r"hdfs\.replication = 2"):
        require_usable_addresses(node(kafka={"min.insync.replicas": "3"}, hdfs={"replication": 2}), is_node=False)
    require_usable_addresses(node(kafka={"min.insync.replicas": "2"}, hdfs={"replication": 2}), is_node=False)


def test_a_node_id_is_a_number_of_the_protocol() -> None:
    with pytest.raises(BadSettings, match="node_id"):
        load_settings({"node_id": 2**31}, None)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("BMQ_LISTEM", "BMQ_LISTEN"),
        ("bmq_listn", "BMQ_LISTEN"),
        ("BMQ_LOGLEVEL", "BMQ_LOG_LEVEL"),
        ("BMQ_PROXI__CONNECTIONS_MAX", "BMQ_PROXY__CONNECTIONS_MAX"),
    ],
)
def test_a_misspelt_variable_is_named_with_what_is_meant(variable: str, meant: str) -> None:
    assert misspelt_variables([variable, "PATH", "BMQ_LISTEN"], Settings.model_fields) == [(variable, meant)]


def test_other_variables_of_this_prefix_are_nobodys_mistake() -> None:
    settings = [f"BMQ_{name.upper()}" for name in Settings.model_fields]
    others = [
        "BMQ_SERVICE_HOST",
        "BMQ_SERVICE_PORT_KAFKA",
        "BMQ_PORT",
        "BMQ_PORT_9092_TCP_ADDR",
        "BMQ_REST_URL",
        "BMQ_CONFIG",
    ]
    tests = ["BMQ_UNDER_TEST", "BMQ_E2E_SERVER", "BMQ_SLOWNESS", "BMQ_STALLS", "BMQ_TEST_RUN", "BMQ_SHARED_DAEMONS"]
    nested = ["BMQ_PROXY__CONNECTIONS_MAX", "BMQ_HDFS__REPLICATION"]
    assert misspelt_variables([*settings, *others, *tests, *nested], Settings.model_fields) == []
