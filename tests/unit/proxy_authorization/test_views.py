"""Who makes a view may read its base: else the view would show what its maker may not see."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bmq.protocol.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from bmq.protocol.request_context import RequestContext
from bmq.proxy.authorization.topics import create_topics
from bmq.security.acls import Operation

pytestmark = pytest.mark.unit


class AskedBy:
    """A client with these rights over topics."""

    api_key = ApiKey.CREATE_TOPICS
    context = RequestContext(7, "test", "127.0.0.1")

    def __init__(self, request: Any, rights: set[tuple[Operation, str]], *, may_create_all: bool) -> None:
        self.request = request
        self._rights = rights
        self._may_create_all = may_create_all

    def topic(self, operation: Operation, name: str, *, is_quiet: bool = False, count: int = 1) -> bool:
        return (operation, name) in self._rights

    def cluster(self, operation: Operation, *, is_quiet: bool = False) -> bool:
        return self._may_create_all


@pytest.mark.parametrize("may_create_all", [True, False])
@pytest.mark.parametrize("may_read", [True, False])
async def test_a_view_takes_read_on_its_base(may_create_all: bool, may_read: bool) -> None:
    configs = [CreatableTopicConfig(name="bmq.view.of", value=" t "), CreatableTopicConfig(name="x", value=None)]
    request = CreateTopicsRequest(topics=[CreatableTopic(name="v", configs=configs), CreatableTopic(name="plain")])
    rights = {(Operation.CREATE, "v"), (Operation.CREATE, "plain"), (Operation.READ, "v")}
    rights |= {(Operation.READ, "t")} if may_read else set()

    async def answer(allowed: Any) -> Any:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=one.name) for one in allowed.topics])

    asked: Any = AskedBy(request, rights, may_create_all=may_create_all)
    response = await create_topics(asked, answer)
    codes = {one.name: one.error_code for one in response.topics}
    denied = ErrorCode.NONE if may_read else ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes == {"plain": ErrorCode.NONE, "v": denied}
