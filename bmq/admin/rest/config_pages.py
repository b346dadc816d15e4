"""Configs of topics and nodes, each value with where it comes from; and configs of topics are changed."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from bmq.admin.orders import topic_of
from bmq.admin.rest.config_views import ConfigPage, described_configs
from bmq.admin.rest.parameters import DryRun, NodeId, TopicName
from bmq.admin.rest.problems import ProblemError, errors
from bmq.admin.rest.sources import RestSources
from bmq.admin.rest.user_requests import check, user_requests
from bmq.protocol.apis import ApiKey
from bmq.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

CONFIGS_MAX: Final = 200
TOPIC: Final = 2
BROKER: Final = 4
_SET: Final = 0
_DELETE: Final = 1
ConfigName = Annotated[str, Field(min_length=1, max_length=249)]
ConfigValue = Annotated[str, Field(max_length=32_000)]


class ConfigsForm(BaseModel):
    """`set`: new values. `reset`: names that go back to the cluster's value. The other configs stay as they are."""

    model_config = ConfigDict(extra="forbid")

    set: Annotated[dict[ConfigName, ConfigValue], Field(max_length=CONFIGS_MAX)] = {}
    reset: Annotated[list[ConfigName], Field(max_length=CONFIGS_MAX)] = []


class DoneView(BaseModel):
    """`summary`: what was done, or with `dry_run` would be."""

    summary: str


def config_pages(sources: RestSources) -> APIRouter:
    pages = APIRouter()

    @pages.get("/v1/topics/{name}/configs", responses=errors(404, 422, 503, 504))
    async def configs(request: Request, name: TopicName) -> ConfigPage:
        """Each config of a topic: its value, where that comes from, and what it would be without."""
        topic_of(sources.image(), name)
        return await described_configs(user_requests(sources, request), TOPIC, name)

    @pages.patch("/v1/topics/{name}/configs", responses=errors(400, 404, 409, 413, 422, 503, 504))
    async def alter_configs(request: Request, name: TopicName, form: ConfigsForm, dry_run: DryRun = False) -> DoneView:
        """Change some configs of a topic."""
        topic_of(sources.image(), name)
        if not form.set and not form.reset:
            raise ProblemError(422, "body: name a config in `set` or in `reset`")
        changes = [AlterableConfig(name=one, config_operation=_SET, value=value) for one, value in form.set.items()]
        changes += [AlterableConfig(name=one, config_operation=_DELETE) for one in form.reset]
        asked = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=changes)],
            validate_only=dry_run,
        )
        answer = await user_requests(sources, request).ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, asked)
        (result,) = answer.responses
        check(result.error_code, result.error_message)
        said = [f"{one} = {value}" for one, value in form.set.items()] + [f"{one} is reset" for one in form.reset]
        return DoneView(summary=f"Topic {name}: {', '.join(said)}.")

    @pages.get("/v1/nodes/{node_id}/configs", responses=errors(404, 422, 503, 504))
    async def broker_configs(request: Request, node_id: NodeId) -> ConfigPage:
        """Each broker config of a node, and where its value comes from. Secrets have no value here."""
        return await described_configs(user_requests(sources, request), BROKER, str(node_id))

    return pages
