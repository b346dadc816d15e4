"""Who is asked for which metrics, and who comes too often: KIP-714's rules, on a clock of our own."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.get_telemetry_subscriptions_response import GetTelemetrySubscriptionsResponse
from bmq.protocol.messages.push_telemetry_request import PushTelemetryRequest
from bmq.protocol.request_context import RequestContext
from bmq.proxy.telemetry_clients import TelemetryClients, new_id, text_of_id

pytestmark = pytest.mark.unit

CLIENT = UUID("7f0c3b6e-7a41-4c0e-9d6a-3f1a55c0d9aa")
CONTEXT = RequestContext(0, "app-1", "10.0.0.7", "apache-kafka-java", "4.3.0", client_port=5_017)
Configs = dict[str, dict[str, str]]
ALL: Configs = {"all": {"metrics": "*", "interval.ms": "1000"}}


def clients(configs: Configs, max_bytes: int = 100) -> TelemetryClients:
    made = TelemetryClients(max_bytes)
    made.use(configs)
    return made


def push(subscription_id: int, metrics: bytes = b"x", **changes: object) -> PushTelemetryRequest:
    given_fields = {"client_instance_id": CLIENT, "subscription_id": subscription_id, "metrics": metrics, **changes}
    return PushTelemetryRequest(**given_fields)  # type: ignore[arg-type]


def refusal(telemetry: TelemetryClients, request: PushTelemetryRequest, now_ms: float) -> ErrorCode:
    try:
        telemetry.require_welcome(request, CONTEXT, now_ms)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def asked(telemetry: TelemetryClients, now_ms: float, client: UUID = CLIENT) -> GetTelemetrySubscriptionsResponse:
    return telemetry.ask(client, CONTEXT, now_ms)


def test_without_a_subscription_nothing_is_asked_for_every_five_minutes() -> None:
    answer = asked(clients({}), 0)
    assert (answer.error_code, answer.requested_metrics, answer.push_interval_ms) == (0, (), 300_000)
    assert (answer.telemetry_max_bytes, answer.delta_temporality) == (100, True)
    assert list(answer.accepted_compression_types) == [4, 3, 1, 2]
    assert answer.client_instance_id == CLIENT


@pytest.mark.parametrize(
    ("match", "is_matched"),
    [
        ("", True),
        ("client_id=app-1", True),
        ("client_id=app", False),
        ("client_id=app|app-1", True),
        ("client_id=.*,client_software_name=apache-kafka-.*", True),
        ("client_id=.*,client_software_version=3.*", False),
        ("client_source_address=10\\.0\\..*", True),
        ("client_source_port=5017", True),
        (f"client_instance_id={text_of_id(CLIENT)}", True),
    ],
)
def test_a_subscription_is_for_clients_that_match_all_of_it(match: str, is_matched: bool) -> None:
    answer = asked(clients({"one": {"match": match, "metrics": "m", "interval.ms": "500"}}), 0)
    assert (answer.requested_metrics, answer.push_interval_ms) == ((("m",), 500) if is_matched else ((), 300_000))


def test_a_client_without_an_id_of_its_own_matches_no_pattern_for_it() -> None:
    nameless = RequestContext(0, None, "10.0.0.7")
    telemetry = clients({"one": {"match": "client_id=.*", "metrics": "m"}})
    assert telemetry.ask(CLIENT, nameless, 0).requested_metrics == ()


def test_subscriptions_add_up_at_the_shortest_interval() -> None:
    configs = {
        "a": {"metrics": "b.,a.", "interval.ms": "7000"},
        "b": {"metrics": "a.,c.", "interval.ms": "3600000"},
        "other": {"metrics": "z", "match": "client_id=nobody", "interval.ms": "100"},
        "of a later release": {"metrics": "z", "shape": "round"},
        "broken": {"metrics": "z", "match": "nonsense"},
    }
    answer = asked(clients(configs), 0)
    assert (answer.requested_metrics, answer.push_interval_ms) == (("a.", "b.", "c.", "z"), 7_000)
    assert asked(clients({**configs, **ALL}), 0).requested_metrics == ("*",)
    assert asked(clients({"slow": {"metrics": "a", "interval.ms": "3600000"}}), 0).push_interval_ms == 300_000


def test_the_number_is_the_same_on_every_node_and_another_for_another_subscription() -> None:
    number = asked(clients(ALL), 0).subscription_id
    assert asked(clients({"same": dict(ALL["all"])}), 99).subscription_id == number
    assert asked(clients({"all": {"metrics": "*", "interval.ms": "1001"}}), 0).subscription_id != number
    assert asked(clients(ALL), 0, UUID(int=5)).subscription_id != number
    assert -(2**31) <= number < 2**31
    assert refusal(clients(ALL), push(number), 0) == ErrorCode.NONE, "a node that has not seen the client takes it"


def test_the_first_push_may_follow_at_once_the_next_one_after_the_interval() -> None:
    telemetry = clients(ALL)
    number = asked(telemetry, 0).subscription_id
    steps = [(1, 0), (2, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (1000, ErrorCode.THROTTLING_QUOTA_EXCEEDED), (1001, 0)]
    assert [refusal(telemetry, push(number), now_ms) for now_ms, _ in steps] == [code for _, code in steps]


def test_who_asks_again_before_the_interval_is_throttled() -> None:
    telemetry = clients(ALL)
    asked(telemetry, 0)
    for now_ms in (1, 999):
        with pytest.raises(KafkaError) as caught:
            asked(telemetry, now_ms)
        assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert f"[{text_of_id(CLIENT)}] arrived before the next push interval" in str(caught.value)
    assert asked(telemetry, 1000).error_code == 0


def test_a_changed_subscription_is_told_at_once() -> None:
    telemetry = clients(ALL)
    old = asked(telemetry, 0).subscription_id
    telemetry.use({"all": {"metrics": "consumer.", "interval.ms": "1000"}})
    assert refusal(telemetry, push(old), 1) == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    new = asked(telemetry, 2)
    assert (new.requested_metrics, new.error_code) == (("consumer.",), 0)
    assert refusal(telemetry, push(new.subscription_id), 3) == ErrorCode.NONE


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"metrics": bytes(101)}, ErrorCode.TELEMETRY_TOO_LARGE),
        ({"metrics": bytes(100)}, ErrorCode.NONE),
        ({"metrics": b""}, ErrorCode.NONE),
        ({"compression_type": 5}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": -1}, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        ({"compression_type": 4}, ErrorCode.NONE),
        ({"client_instance_id": None}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": UUID(int=0)}, ErrorCode.INVALID_REQUEST),
        ({"client_instance_id": UUID(int=1)}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_hostile_pushes(changes: dict[str, object], code: ErrorCode) -> None:
    telemetry = clients(ALL)
    number = asked(telemetry, 0).subscription_id
    assert refusal(telemetry, push(number, **changes), 1) == code  # type: ignore[arg-type]


def test_after_its_last_push_a_client_sends_no_more() -> None:
    telemetry = clients(ALL)
    number = asked(telemetry, 0).subscription_id
    assert refusal(telemetry, push(number), 1) == ErrorCode.NONE
    assert refusal(telemetry, push(number, terminating=True), 2) == ErrorCode.NONE, "the last one need not wait"
    assert refusal(telemetry, push(number, terminating=True), 5_000) == ErrorCode.INVALID_REQUEST


def test_what_is_remembered_has_a_limit() -> None:
    telemetry = TelemetryClients(100, clients_max=10)
    telemetry.use(ALL)
    for number in range(1, 100):
        asked(telemetry, 0, UUID(int=number << 64))
    assert len(telemetry) == 10


@given(st.uuids() | st.none(), st.integers(0, 2**128 - 1))
def test_a_client_keeps_its_id_or_gets_one(given_id: UUID | None, bits: int) -> None:
    made = new_id(given_id, bits)
    assert made == given_id or (not (given_id and given_id.int) and made.version == 4)
