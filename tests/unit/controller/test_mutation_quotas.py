"""Controller mutations: what is charged, refused from which version on, and told."""

from __future__ import annotations

from uuid import UUID

import pytest

from bmq.controller import mutation_quotas
from bmq.controller.mutation_quotas import STRICT_FROM, MutationCharge, MutationQuotas
from bmq.controller.partition_counts import decide_create_partitions
from bmq.controller.topics import TopicLimits, decide_create_topics, decide_delete_topics
from bmq.protocol.apis import ApiKey
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.request_context import RequestContext, by_itself, is_own
from bmq.security.quotas.entities import Quotas
from tests.unit.controller.support import Cluster, create, delete, grow, topic

pytestmark = pytest.mark.unit

QUOTAS: Quotas = {(("user", "u"),): {"controller_mutation_rate": 1.0}}
STRICT, OLD = 7, 2


class Lab:
    """A client with one partition a second, and 11 at once."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.quotas = MutationQuotas(lambda: self.now_ms)
        self.cluster = Cluster()

    def charge(self, version: int, user: str = "u", api_key: ApiKey = ApiKey.CREATE_TOPICS) -> MutationCharge:
        charge = self.quotas.charge(QUOTAS, api_key, version, f"User:{user}", "c")
        assert charge is not None
        return charge

    def create(self, charge: MutationCharge, **partitions: int) -> list[int]:
        wanted = create(*(topic(name, count) for name, count in partitions.items()))
        ids = [UUID(int=self.cluster.offset + number + 1_000) for number in range(len(partitions))]
        decision = decide_create_topics(self.cluster.image, wanted, self.cluster.broker, TopicLimits(), ids, charge)
        self.cluster.take(decision.records)
        return [result.error_code for result in decision.response.topics]


REFUSED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


def test_the_topic_that_overdraws_the_bucket_passes_and_the_next_are_refused() -> None:
    lab = Lab()
    charge = lab.charge(STRICT)
    assert lab.create(charge, a=10, b=6, c=1) == [0, 0, REFUSED]
    assert charge.throttle_ms == 5_000
    lab.now_ms = 4_999
    assert lab.create(lab.charge(STRICT), c=1) == [REFUSED]
    lab.now_ms = 5_000
    assert lab.create(lab.charge(STRICT), c=1) == [0]


def test_older_versions_are_carried_out_and_then_throttled() -> None:
    lab = Lab()
    charge = lab.charge(OLD)
    assert lab.create(charge, a=10, b=6, c=1) == [0, 0, 0]
    assert charge.throttle_ms == 6_000


def test_what_fails_for_another_reason_costs_nothing() -> None:
    lab = Lab()
    charge = lab.charge(STRICT)
    assert lab.create(charge, **{"a": 11, "": 200}) == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert lab.charge(OLD).throttle_ms == 0
    assert lab.create(lab.charge(STRICT), b=1) == [0]


def test_deletions_and_new_partitions_are_charged_by_their_number() -> None:
    lab = Lab()
    assert lab.create(lab.charge(STRICT), a=3, b=4) == [0, 0]
    charge = lab.charge(STRICT, api_key=ApiKey.CREATE_PARTITIONS)
    codes = []
    for name, count in (("a", 8), ("b", 9)):  # 4 left, 5 taken
        answer = decide_create_partitions(lab.cluster.image, grow(name, count), TopicLimits(), charge).response
        codes += [result.error_code for result in answer.results]
    assert codes == [0, REFUSED]
    lab.now_ms = 1_000
    charge = lab.charge(STRICT, api_key=ApiKey.DELETE_TOPICS)
    gone = decide_delete_topics(lab.cluster.image, delete("a", "b"), charge=charge).response
    assert [result.error_code for result in gone.responses] == [0, REFUSED]
    assert charge.throttle_ms == 3_000
    assert gone.responses[1].error_message == "The throttling quota has been exceeded."


def test_the_versions_that_are_refused_are_kafkas() -> None:
    assert STRICT_FROM == {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}


def test_others_are_not_charged() -> None:
    lab = Lab()
    assert lab.quotas.charge(QUOTAS, ApiKey.CREATE_TOPICS, STRICT, "User:v", "c") is None
    own = by_itself(ApiKey.CREATE_TOPICS)
    assert is_own(own)
    assert not is_own(RequestContext(STRICT, "bmq", "10.0.0.1", principal=own.principal))


def test_clients_in_memory_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutation_quotas, "BUCKETS_MAX", 2)
    quotas: Quotas = {(("user", None),): {"controller_mutation_rate": 1.0}}
    now_ms = 0
    buckets = MutationQuotas(lambda: now_ms)

    def spend(user: str) -> None:
        charge = buckets.charge(quotas, ApiKey.CREATE_TOPICS, STRICT, f"User:{user}", None)
        assert charge is not None
        charge(12)

    spend("a")
    spend("b")
    spend("c")
    with pytest.raises(KafkaError):
        spend("b")
    assert len(buckets._buckets) == 2
