"""tools/log_events.py: what a module logs is found, whatever way it names its events."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from tools.log_events import Event, LogCall, UnknownEvent, events, log_calls

pytestmark = pytest.mark.unit

HEAD = 'import structlog\n\n_log = structlog.get_logger("bmq.part")\n'


def calls_of(tmp_path: Path, *modules: str) -> list[LogCall]:
    for number, text in enumerate(modules):
        (tmp_path / "part").mkdir(exist_ok=True)
        (tmp_path / "part" / f"module_{number}.py").write_text(HEAD + dedent(text))
    return log_calls(tmp_path)


def short(calls: list[LogCall]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(call.event, call.level, call.fields) for call in calls]


def test_a_plain_call(tmp_path: Path) -> None:
    (call,) = calls_of(tmp_path, '_log.info("begun", node_id=1, reason="x")')
    assert call == LogCall("begun", "info", "bmq.part", ("node_id", "reason"), "part/module_0")


def test_an_exception_is_an_error_with_a_traceback(tmp_path: Path) -> None:
    text = """
    _log.exception("failed", path=1)
    _log.error("failed_too", exc_info=error)
    """
    assert short(calls_of(tmp_path, text)) == [
        ("failed", "error", ("path", "exception")),
        ("failed_too", "error", ("exception",)),
    ]


def test_levels_and_names_that_depend_on_a_condition(tmp_path: Path) -> None:
    text = """
    def told(is_clean):
        tell = _log.info if is_clean else _log.warning
        tell("ended")
        (_log.debug if is_clean else _log.info)("begun")
        _log.info("fenced" if is_clean else "unfenced")
    """
    assert {(event, level) for event, level, _ in short(calls_of(tmp_path, text))} == {
        ("ended", "info"),
        ("ended", "warning"),
        ("begun", "debug"),
        ("begun", "info"),
        ("fenced", "info"),
        ("unfenced", "info"),
    }


def test_names_that_callers_pass(tmp_path: Path) -> None:
    text = """
    def report(event, error):
        _log.error(event, reason=error)

    class Round:
        def drop(self, offset, reason):
            _log.info(f"{reason}_applied", offset=offset)

        def run(self):
            report("not_taken", 1)
            self.drop(4, "retention")
            self.drop(5, reason="eviction")
    """
    assert [call.event for call in calls_of(tmp_path, text)] == ["not_taken", "retention_applied", "eviction_applied"]


def test_names_from_a_class_variable_of_the_package(tmp_path: Path) -> None:
    base = """
    class Shard:
        kind: ClassVar[str]

        def lose(self):
            _log.warning(f"{self.kind}_lost")
    """
    kinds = """
    class GroupShard(Shard):
        kind: ClassVar = "group"

    class OtherShard(Shard):
        kind: ClassVar = "other"
    """
    assert [call.event for call in calls_of(tmp_path, base, kinds)] == ["group_lost", "other_lost"]


def test_fields_that_a_function_or_a_dict_gives(tmp_path: Path) -> None:
    caller = """
    def end(partition, loss):
        about = {"first": 1, "last": 2}
        _log.info("ended", **partition.names(), **about, reason=loss)
    """
    names = """
    class Partition:
        def names(self):
            return {"topic": self.topic, "partition": self.number}
    """
    (call,) = calls_of(tmp_path, caller, names)
    assert call.fields == ("topic", "partition", "first", "last", "reason")


def test_fields_bound_to_a_logger(tmp_path: Path) -> None:
    text = """
    class Election:
        def __init__(self, node_id):
            self._log = _log.bind(node_id=node_id)

        def run(self):
            self._log.error("unusable", servers=1)
    """
    assert short(calls_of(tmp_path, text)) == [("unusable", "error", ("node_id", "servers"))]


@pytest.mark.parametrize("call", ["_log.info(name())", '_log.info("begun", **given())', "_log.info()"])
def test_what_the_source_does_not_tell_is_refused(tmp_path: Path, call: str) -> None:
    with pytest.raises(UnknownEvent, match=r"module_0\.py:4"):
        calls_of(tmp_path, call.strip())


def test_calls_of_other_things_are_none(tmp_path: Path) -> None:
    assert calls_of(tmp_path, "message.error()\ntask.exception()\nother.info(name())\n") == []


def test_an_event_joins_its_calls() -> None:
    calls = [
        LogCall("lost", "warning", "bmq.b", ("node_id", "reason"), "b/two"),
        LogCall("lost", "info", "bmq.b", ("node_id",), "b/one"),
        LogCall("begun", "info", "bmq.a", (), "a/one"),
    ]
    assert events(calls) == [
        Event("begun", "bmq.a", ("info",), (), frozenset(), ("a/one",)),
        Event("lost", "bmq.b", ("info", "warning"), ("node_id", "reason"), frozenset({"reason"}), ("b/one", "b/two")),
    ]
