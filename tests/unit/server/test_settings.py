"""Which source of a setting wins, how a bad one is named, and that the documentation knows them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from bmq.broker.context import BrokerSettings
from bmq.proxy.fetch_settings import FetchSettings
from bmq.server.machine_memory import cache_bytes, memory_bytes
from bmq.server.renamed_settings import RENAMED, with_present_names
from bmq.server.settings import BadSettings, load_settings, split_address

pytestmark = pytest.mark.unit

CONFIG_PAGE = Path(__file__).parents[3] / "docs" / "CONFIG.md"


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No bmq.toml in the current directory, no BMQ_ variables from outside."""
    import os

    for name in list(os.environ):
        if name.startswith("BMQ_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def sources_of(loaded: object) -> dict[str, str]:
    return {origin.name: origin.source for origin in loaded.origins}  # type: ignore[attr-defined]


def test_command_line_beats_environment_beats_file_beats_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "bmq.toml"
    file.write_text('listen = "127.0.0.1:1"\nrest = "127.0.0.1:2"\nnode_id = 3\n')
    monkeypatch.setenv("BMQ_REST", "127.0.0.1:4")
    monkeypatch.setenv("BMQ_NODE_ID", "5")
    loaded = load_settings({"node_id": 6}, None)
    assert (loaded.settings.listen, loaded.settings.rest, loaded.settings.node_id) == ("127.0.0.1:1", "127.0.0.1:4", 6)
    sources = sources_of(loaded)
    assert sources["listen"] == "file bmq.toml"
    assert sources["rest"] == "environment"
    assert sources["node_id"] == "command line"
    assert sources["data"] == "default"


def test_in_front_of_hdfs_caches_are_a_share_of_the_memory_unless_they_are_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hdfs = {"store": "hdfs://namenode:8020/bmq"}
    loaded = load_settings(hdfs, None)
    assert loaded.settings.fetch.read_cache_bytes_max == cache_bytes(memory_bytes())
    assert loaded.settings.broker.tail_cache_bytes_max == cache_bytes(memory_bytes())
    assert loaded.settings.broker.append_bytes_max == BrokerSettings().append_bytes_max
    assert sources_of(loaded)["fetch.read_cache_bytes_max"] == "default, 1/32 of the memory"
    assert sources_of(loaded)["fetch.read_chunk_bytes"] == "default"
    local = load_settings({"store": "file:/somewhere"}, None)
    assert local.settings.fetch.read_cache_bytes_max == FetchSettings().read_cache_bytes_max
    assert local.settings.broker.tail_cache_bytes_max == BrokerSettings().tail_cache_bytes_max
    assert sources_of(local)["fetch.read_cache_bytes_max"] == "default"
    monkeypatch.setenv("BMQ_FETCH__READ_CACHE_BYTES_MAX", "5000000")
    loaded = load_settings(hdfs, None)
    assert loaded.settings.fetch.read_cache_bytes_max == 5_000_000
    assert sources_of(loaded)["fetch.read_cache_bytes_max"] == "environment"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ('["orders:80", "[::1]:8080"]', ("orders:80", "[::1]:8080")),
        ("orders:80, [::1]:8080", ("orders:80", "[::1]:8080")),
        ("[::1]:8080", ("[::1]:8080",)),
        ("4711", ("4711",)),
        ('"orders:80"', ("orders:80",)),
        ("", ()),
    ],
)
def test_hosts_of_checks_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, text: str, hosts: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BMQ_HALF_CHECKS__HOSTS", text)
    assert load_settings({}, None).settings.half_checks.hosts == hosts


@pytest.mark.parametrize("value", ["9092", "host:", "host:70000", ":9092", "host:port"])
def test_a_bad_address_is_named_with_its_value_and_source(value: str) -> None:
    with pytest.raises(BadSettings, match="listen") as caught:
        load_settings({"listen": value}, None)
    assert value in str(caught.value)
    assert "command line" in str(caught.value)


def test_an_unknown_setting_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("lisen = '127.0.0.1:9'\n")
    with pytest.raises(BadSettings, match=r"setting lisen \(from the file .*other\.toml\) is not one of this release"):
        load_settings({}, file)


def test_a_setting_of_another_release_is_named_as_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMQ_CLUSTER__LATER_MS", "15000")
    with pytest.raises(BadSettings) as caught:
        load_settings({}, None)
    assert str(caught.value) == "setting cluster.later_ms (from the environment) is not one of this release"


def test_a_file_that_is_not_toml_is_one_sentence(tmp_path: Path) -> None:
    file = tmp_path / "other.toml"
    file.write_text("listen = \n")
    with pytest.raises(BadSettings, match=r"other\.toml cannot be read"):
        load_settings({}, file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="does not exist"):
        load_settings({}, tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("address", "parts"), [("127.0.0.1:9092", ("127.0.0.1", 9092)), ("[::1]:0", ("::1", 0)), ("h:1", ("h", 1))]
)
def test_split_address(address: str, parts: tuple[str, int]) -> None:
    assert split_address(address) == parts


def test_a_session_shorter_than_two_heartbeats_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BMQ_CLUSTER__NODE_SESSION_TIMEOUT_MS", "999")
    with pytest.raises(
        BadSettings, match=r"cluster\.node_session_timeout_ms is 999; it has to be at least twice .*1000"
    ):
        load_settings({}, None)
    monkeypatch.setenv("BMQ_CLUSTER__NODE_SESSION_TIMEOUT_MS", "15000")
    assert load_settings({}, None).settings.cluster.node_session_timeout_ms == 15_000
    monkeypatch.setenv("BMQ_CLUSTER__HEARTBEAT_INTERVAL_MS", "0")
    with pytest.raises(BadSettings, match=r"cluster\.heartbeat_interval_ms = 0"):
        load_settings({}, None)


def test_the_documentation_names_every_setting() -> None:
    text = CONFIG_PAGE.read_text()
    missing = [origin.name for origin in load_settings({}, None).origins if f"`{origin.name}`" not in text]
    assert missing == []


@pytest.mark.parametrize("old", RENAMED)
def test_a_setting_works_under_the_name_of_the_last_release(
    old: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "bmq.toml").write_text(f"{old} = 77\n")
    loaded = load_settings({}, None)
    origins = {origin.name: origin for origin in loaded.origins}
    assert (origins[RENAMED[old]].value, origins[RENAMED[old]].source) == (77, "file bmq.toml")
    assert old not in origins
    assert loaded.old_names == (old,)
    monkeypatch.setenv(f"BMQ_{RENAMED[old].upper().replace('.', '__')}", "78")
    assert {origin.name: origin.value for origin in load_settings({}, None).origins}[RENAMED[old]] == 78


def test_of_one_source_the_present_name_wins() -> None:
    old, new = next(iter(RENAMED.items()))
    table, old_name, new_name = old.split(".")[0], old.split(".")[1], new.split(".")[1]
    layer = {table: {old_name: 1, new_name: 2}, "listen": "x"}
    assert with_present_names(layer) == ({table: {new_name: 2}, "listen": "x"}, [old])
    assert layer[table] == {old_name: 1, new_name: 2}


def test_a_setting_under_its_present_name_needs_no_warning() -> None:
    assert load_settings({"node_id": 6}, None).old_names == ()
    assert with_present_names({"fetch": "no table"}) == ({"fetch": "no table"}, [])
