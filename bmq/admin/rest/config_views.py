"""Configs as JSON: each value with where it comes from, as DescribeConfigs tells it."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel

from bmq.admin.rest.user_requests import UserRequests, check
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

_SOURCES: Final = {
    1: "topic",
    2: "node, changed while running",
    3: "cluster, changed while running",
    4: "the node's settings",
    5: "default",
    6: "logger",
    7: "client metrics",
    8: "group",
}
"""Words for Kafka's ConfigSource."""
_TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}


class ConfigSynonym(BaseModel):
    """A value that would count without those before it."""

    name: str
    value: str | None
    source: str


class ConfigLine(BaseModel):
    """`value`: null for secrets. `synonyms`: all values in the order in which they count, the present one first."""

    name: str
    value: str | None
    source: str
    type: str
    is_read_only: bool
    is_secret: bool
    documentation: str | None
    synonyms: list[ConfigSynonym]


class ConfigPage(BaseModel):
    """In the order of their names."""

    configs: list[ConfigLine]


async def described_configs(requests: UserRequests, resource_type: int, resource_name: str) -> ConfigPage:
    """The configs of one resource. Raises ProblemError."""
    asked = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=resource_type, resource_name=resource_name, configuration_keys=None)
        ],
        include_synonyms=True,
        include_documentation=True,
    )
    answer = await requests.ask(ApiKey.DESCRIBE_CONFIGS, asked)
    (result,) = answer.results
    check(result.error_code, result.error_message)
    return ConfigPage(
        configs=[
            ConfigLine(
                name=one.name,
                value=None if one.is_sensitive else one.value,
                source=_SOURCES.get(one.config_source, "unknown"),
                type=_TYPES.get(one.config_type, "unknown"),
                is_read_only=one.read_only,
                is_secret=one.is_sensitive,
                documentation=one.documentation or None,
                synonyms=[
                    ConfigSynonym(
                        name=other.name,
                        value=None if one.is_sensitive else other.value,
                        source=_SOURCES.get(other.source, "unknown"),
                    )
                    for other in one.synonyms
                ],
            )
            for one in sorted(result.configs, key=lambda one: one.name)
        ]
    )
