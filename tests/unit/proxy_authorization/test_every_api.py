"""Every API at every version, for a client without any right: its handler sees nothing, and the answer says so."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Final

import pytest

from bmq.protocol.apis import APIS, ApiKey
from bmq.protocol.codec import decode, encode, message_format
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.request_context import RequestContext
from bmq.proxy.access import Access
from bmq.proxy.authorization.asked import anyone
from bmq.proxy.authorization.rules import RULES, authorized
from bmq.proxy.dispatch import EAGER_HANDLERS, HANDLERS, HOT_HANDLERS
from bmq.proxy.handlers import load_all
from bmq.security.authorizer import Decider
from tests.unit.proxy.harness import image_of, topic_image
from tests.unit.proxy_authorization.requests import TOPIC_ID, WORD, full_request, values_of

pytestmark = pytest.mark.unit

FOR_ANYONE: Final = {
    ApiKey.PRODUCE,  # asks for each topic itself: test_hot_apis
    ApiKey.FETCH,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.API_VERSIONS,
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.CREATE_DELEGATION_TOKEN,  # owners and renewers alone; the handlers ask for the rest
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}
FILTERED: Final = {ApiKey.LIST_GROUPS, ApiKey.LIST_TRANSACTIONS}
"""What may not be seen is left out of the answer, without an error."""
WITHOUT_ERROR: Final = {ApiKey.DESCRIBE_CLUSTER}
DENIALS: Final = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
GUARDED: Final = sorted(RULES.keys() - FOR_ANYONE - FILTERED - WITHOUT_ERROR)


def answer_without_rights(api_key: ApiKey, version: int, request: Any) -> tuple[Any, list[Any]]:
    """The answer as its client decodes it, and what the handler was asked."""
    asked = []
    response_class = message_format("response", api_key).message_class

    async def answer(allowed: Any) -> Any:
        asked.append(allowed)
        return response_class()

    context = RequestContext(version, "client", "10.0.0.1", principal="User:nobody")
    image = image_of(topic_image(WORD, TOPIC_ID, 3))
    response = asyncio.run(authorized(api_key, request, context, Access(Decider(), dict), image, answer))
    assert response is not None, f"{api_key.name} {version} has no answer: the connection would be closed"
    return decode("response", api_key, version, encode("response", api_key, version, response)), asked


def test_every_api_has_a_rule_and_only_known_ones_let_everybody_pass() -> None:
    assert RULES.keys() == APIS.keys()
    assert {api_key for api_key, rule in RULES.items() if rule is anyone} == FOR_ANYONE


def test_no_table_of_handlers_has_an_api_without_a_rule() -> None:
    load_all()
    served = {*HANDLERS, *HOT_HANDLERS, *EAGER_HANDLERS}
    assert served & APIS.keys() <= RULES.keys()
    assert HOT_HANDLERS.keys() & APIS.keys() == {ApiKey.PRODUCE, ApiKey.FETCH}  # they ask themselves


@pytest.mark.parametrize("api_key", GUARDED, ids=lambda api_key: api_key.name)
def test_without_a_right_nothing_is_asked_of_the_handler(api_key: ApiKey) -> None:
    for version in range(APIS[api_key].version_min, APIS[api_key].version_max + 1):
        response, asked = answer_without_rights(api_key, version, full_request(api_key, version))
        for one in asked:
            seen = {value for _, value in values_of(one)}
            assert not seen & {WORD, TOPIC_ID}, f"version {version}: {one}"
        codes = {value for name, value in values_of(response) if name.endswith("error_code")}
        is_silent = api_key is ApiKey.DESCRIBE_LOG_DIRS and version < 3
        is_wrong = api_key is ApiKey.METADATA and version in (10, 11)  # with an id, which is refused whoever asks
        assert is_silent or is_wrong or codes & DENIALS, f"version {version} does not say that it is denied: {response}"


@pytest.mark.parametrize("version", range(14))
def test_metadata_of_all_topics_has_none(version: int) -> None:
    request = replace(full_request(ApiKey.METADATA, version), topics=[] if version == 0 else None)
    response, asked = answer_without_rights(ApiKey.METADATA, version, request)
    assert not response.topics
    for one in asked:
        assert [topic.name for topic in one.topics] == [""], "version 0 reads an empty list as: all topics"


def test_metadata_0_never_asks_for_all_topics_because_none_may_be_seen() -> None:
    request = full_request(ApiKey.METADATA, 0)
    response, asked = answer_without_rights(ApiKey.METADATA, 0, request)
    assert all(one.topics for one in asked)
    assert [one.error_code for one in response.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
