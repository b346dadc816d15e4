"""Loggers altered live: which line is written, what is described, and what Kafka would refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
import structlog

from bmq.metadata.config_keys import ResourceType
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import BmqError
from bmq.protocol.messages.describe_configs_response import DescribeConfigsResponse, DescribeConfigsResult
from bmq.protocol.messages.incremental_alter_configs_request import AlterableConfig
from bmq.protocol.messages.incremental_alter_configs_response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from bmq.protocol.request_context import RequestContext
from bmq.proxy import broker_loggers
from bmq.proxy.log_levels import LOGGERS, LogLevels
from bmq.server import logs
from bmq.server.logs import configure_logs
from tests.unit.controller.support import describe, incremental

pytestmark = pytest.mark.unit

SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OWN = 1
LOGGER, TOPIC = int(ResourceType.BROKER_LOGGER), int(ResourceType.TOPIC)


def change(name: str, operation: int, value: str | None = None) -> AlterableConfig:
    return AlterableConfig(name=name, config_operation=operation, value=value)


def test_a_logger_without_a_level_of_its_own_has_the_roots() -> None:
    levels = LogLevels("warning")
    assert levels.described() == {**dict.fromkeys(LOGGERS, "WARN"), "root": "WARN"}
    levels.alter([change("bmq.hdfs", SET, "DEBUG"), change("root", SET, "ERROR")])
    assert (levels.of("bmq.hdfs"), levels.of("bmq.proxy"), levels.of("unheard of")) == ("DEBUG", "ERROR", "ERROR")
    assert levels.is_shown("bmq.hdfs", 10) and not levels.is_shown("bmq.proxy", 30) and levels.is_shown("bmq.proxy", 40)
    levels.alter([change("bmq.hdfs", DELETE)])
    assert levels.of("bmq.hdfs") == "ERROR"


@pytest.mark.parametrize(
    ("one", "code", "message"),
    [
        (change("kafka.server.KafkaApis", SET, "DEBUG"), ErrorCode.INVALID_CONFIG, "Logger kafka.server.KafkaApis does not exist!"),
        (change("root", SET, "LOUD"), ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to LOUD as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        (change("root", SET), ErrorCode.INVALID_CONFIG, "Cannot set the log level of root to None as it is not a supported log level. Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        (change("root", DELETE), ErrorCode.INVALID_REQUEST, "Removing the log level of the root logger is not allowed"),
        (change("root", APPEND, "DEBUG"), ErrorCode.INVALID_REQUEST, "APPEND operation is not allowed for the BROKER_LOGGER resource"),
        (change("root", SUBTRACT, "DEBUG"), ErrorCode.INVALID_REQUEST, "SUBTRACT operation is not allowed for the BROKER_LOGGER resource"),
        (change("root", 9, "DEBUG"), ErrorCode.INVALID_REQUEST, "Unknown operation 9 for config root"),
        (change("bmq.hdfs", SET, "INFO"), ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"),
    ],
)  # fmt: skip
def test_what_is_refused_changes_nothing(one: AlterableConfig, code: ErrorCode, message: str) -> None:
    levels = LogLevels()
    with pytest.raises(BmqError) as refused:
        levels.alter([change("bmq.hdfs", SET, "DEBUG"), one])
    assert (refused.value.code, str(refused.value)) == (code, message)
    assert levels.described() == LogLevels().described()


def test_lines_are_written_by_their_loggers_levels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs.logging, "basicConfig", lambda **_: None)  # type: ignore[attr-defined]
    before = structlog.get_config()
    try:
        levels = configure_logs("info", "json")
        loud, other = structlog.get_logger("bmq.hdfs"), structlog.get_logger("bmq.proxy")
        for write in (loud.debug, other.debug, other.info):
            write("at first")
        levels.alter([change("bmq.hdfs", SET, "DEBUG"), change("root", SET, "ERROR")])
        for write in (loud.debug, other.debug, other.warning, other.error):
            write("then")
    finally:
        structlog.configure(**before)
    written = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["level"]) for line in written] == [
        ("at first", "info"),
        ("then", "debug"),
        ("then", "error"),
    ]


class Elsewhere:
    """Answers for all other resources."""

    def __init__(self) -> None:
        self.asked: list[list[tuple[int, str]]] = []

    async def describe(self, request: Any) -> DescribeConfigsResponse:
        self.asked.append([(one.resource_type, one.resource_name) for one in request.resources])
        return DescribeConfigsResponse(
            results=[DescribeConfigsResult(resource_type=kind, resource_name=name) for kind, name in self.asked[-1]]
        )

    async def alter(self, request: Any) -> IncrementalAlterConfigsResponse:
        self.asked.append([(one.resource_type, one.resource_name) for one in request.resources])
        return IncrementalAlterConfigsResponse(
            responses=[
                AlterConfigsResourceResponse(resource_type=kind, resource_name=name) for kind, name in self.asked[-1]
            ]
        )


CONTEXT = RequestContext(1, "test", "127.0.0.1")


async def test_a_node_answers_for_its_own_loggers_and_passes_on_the_rest() -> None:
    levels, elsewhere = LogLevels(), Elsewhere()
    request = describe((TOPIC, "a", None), (LOGGER, "1", ("root", "nope")), (LOGGER, "2", None))
    answer = await broker_loggers.answer(ApiKey.DESCRIBE_CONFIGS, request, CONTEXT, levels, OWN, elsewhere.describe)
    assert [(one.resource_type, one.resource_name) for one in answer.results] == [(2, "a"), (8, "1"), (8, "2")]
    (root,) = answer.results[1].configs
    assert (root.name, root.value, root.config_source, root.read_only) == ("root", "INFO", 6, False)
    assert elsewhere.asked == [[(2, "a"), (8, "2")]]


async def test_what_is_not_about_its_loggers_or_names_them_twice_is_passed_on_whole() -> None:
    levels, elsewhere = LogLevels(), Elsewhere()
    for request in (describe((TOPIC, "a", None)), describe((LOGGER, "1", None), (LOGGER, "1", None)), describe()):
        passed: list[Any] = []

        async def forward(rest: Any, passed: list[Any] = passed) -> Any:
            passed.append(rest)
            return await elsewhere.describe(rest)

        await broker_loggers.answer(ApiKey.DESCRIBE_CONFIGS, request, CONTEXT, levels, OWN, forward)
        assert passed == [request] and passed[0] is request


async def test_levels_are_altered_or_only_checked() -> None:
    levels, elsewhere = LogLevels(), Elsewhere()

    async def alter(value: str, *, validate_only: bool = False) -> tuple[int, str | None]:
        request = incremental(LOGGER, "1", ("bmq.hdfs", SET, value))
        request.validate_only = validate_only
        answer = await broker_loggers.answer(
            ApiKey.INCREMENTAL_ALTER_CONFIGS, request, CONTEXT, levels, OWN, elsewhere.alter
        )
        (result,) = answer.responses
        assert (result.resource_type, result.resource_name) == (8, "1")
        return result.error_code, result.error_message

    assert await alter("DEBUG", validate_only=True) == (0, None)
    assert levels.of("bmq.hdfs") == "INFO"
    assert await alter("DEBUG") == (0, None)
    assert levels.of("bmq.hdfs") == "DEBUG"
    code, message = await alter("LOUD")
    assert code == ErrorCode.INVALID_CONFIG and "LOUD" in (message or "")
    assert elsewhere.asked == []
