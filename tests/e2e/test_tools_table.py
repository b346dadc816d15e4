"""A sample of the table of Kafka's tools (`make tools-table`): its servers, its cases and its comparison work."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tools_table.cases import all_cases
from tests.tools_table.results import EQUAL, as_json, without_case
from tests.tools_table.run import both_servers, compare_all, options_by_tool

pytestmark = [pytest.mark.campaign("kafka"), pytest.mark.timeout(240)]

TOOL = "kafka-get-offsets"


def test_a_tool_prints_the_same_as_on_kafka(tmp_path: Path) -> None:
    cases = [case for case in all_cases() if case.tool == TOOL]
    with both_servers(tmp_path / "servers") as (bmq, kafka, runner):
        result = as_json(compare_all(bmq, kafka, cases), options_by_tool(runner, [TOOL]))
    assert not result["differences"]
    assert not without_case(result)
    (tool,) = result["tools"]
    assert tool["options"]["--topic"]["state"] == EQUAL
