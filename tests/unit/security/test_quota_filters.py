"""DescribeClientQuotas: which entities a request asks for, and which requests are refused."""

from __future__ import annotations

import pytest

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.security.quotas.entities import Entity, entity_of
from bmq.security.quotas.filters import Component, described

pytestmark = pytest.mark.unit

EXACT, DEFAULT, SPECIFIED, UNKNOWN = 0, 1, 2, 3
BOTH = entity_of([("user", "u"), ("client-id", "c")])
USER_AND_ANY = entity_of([("user", "u"), ("client-id", None)])
USER = entity_of([("user", "u")])
ANY_USER = entity_of([("user", None)])
CLIENT = entity_of([("client-id", "c")])
ADDRESS = entity_of([("ip", "10.0.0.1")])
QUOTAS = {entity: {"k": 1.0} for entity in (BOTH, USER_AND_ANY, USER, ANY_USER, CLIENT, ADDRESS)}


@pytest.mark.parametrize(
    ("components", "is_strict", "found"),
    [
        ([], False, [BOTH, USER_AND_ANY, USER, ANY_USER, CLIENT, ADDRESS]),
        ([], True, []),
        ([("user", EXACT, "u")], False, [BOTH, USER_AND_ANY, USER]),
        ([("user", EXACT, "u")], True, [USER]),
        ([("user", DEFAULT, None)], True, [ANY_USER]),
        ([("user", SPECIFIED, None)], True, [USER, ANY_USER]),
        ([("user", SPECIFIED, None), ("client-id", SPECIFIED, None)], False, [BOTH, USER_AND_ANY]),
        ([("user", EXACT, "u"), ("client-id", DEFAULT, None)], True, [USER_AND_ANY]),
        ([("client-id", EXACT, "c")], False, [BOTH, CLIENT]),
        ([("ip", EXACT, "10.0.0.1")], True, [ADDRESS]),
        ([("ip", EXACT, "10.0.0.2")], True, []),
    ],
)
def test_entities_that_meet_all_conditions_are_described(
    components: list[tuple[str, int, str | None]], is_strict: bool, found: list[Entity]
) -> None:
    asked = [Component(*one) for one in components]
    assert [entity for entity, _ in described(QUOTAS, asked, is_strict=is_strict)] == found


@pytest.mark.parametrize(
    ("components", "code", "why"),
    [
        ([("", EXACT, "u")], ErrorCode.INVALID_REQUEST, "Invalid empty entity type."),
        ([("user", EXACT, "u")] * 2, ErrorCode.INVALID_REQUEST, "Entity type user cannot appear more than once"),
        ([("group", EXACT, "u")], ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST, "set match string to null"),
        ([("user", DEFAULT, "u")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_DEFAULT, but also specified"),
        ([("user", SPECIFIED, "u")], ErrorCode.INVALID_REQUEST, "MATCH_TYPE_SPECIFIED, but also specified"),
        ([("user", UNKNOWN, None)], ErrorCode.INVALID_REQUEST, "Unknown match type 3"),
        ([("user", SPECIFIED, None), ("ip", SPECIFIED, None)], ErrorCode.INVALID_REQUEST, "IP filter component"),
    ],
)
def test_bad_filters_are_refused(components: list[tuple[str, int, str | None]], code: ErrorCode, why: str) -> None:
    with pytest.raises(KafkaError, match=why) as refused:
        described(QUOTAS, [Component(*one) for one in components], is_strict=False)
    assert refused.value.code is code
