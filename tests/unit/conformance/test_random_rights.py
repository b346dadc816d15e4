"""Random sets of ACLs beside Kafka: what is drawn, what each wave asks, and what counts as a difference of rights."""

from __future__ import annotations

from typing import Any

import pytest

from bmq.security.acls import Permission
from tests.conformance.answers import CLOSED
from tests.conformance.rights.judged import Judged
from tests.conformance.rights.personas import EVERYBODY, Persona
from tests.conformance.rights.random_sets import drawn_waves
from tests.conformance.rights.run import Asked

pytestmark = pytest.mark.campaign("unit")

DELETE_TOPICS, TOPIC_REFUSED, UNKNOWN_TOPIC = 20, 29, 3


def judged(ours: Any, theirs: Any) -> Judged:
    found = Judged()
    found.add(Asked(DELETE_TOPICS, 6, "any", "drawn 1 0", [ours, theirs]))
    return found


def topics(*codes: int) -> dict[str, Any]:
    return {"responses": [{"name": f"t{number}", "error_code": code} for number, code in enumerate(codes)]}


def test_every_set_is_of_a_user_of_its_own_and_a_seed_draws_the_same_again() -> None:
    waves = drawn_waves(1, 120)
    users = [user for wave in waves for user in wave.users]
    assert [len(wave.users) for wave in waves] == [50, 50, 20]
    assert len({user.principal for user in users}) == 120
    assert all(user.acls for user in users)
    assert drawn_waves(1, 120) == waves
    assert drawn_waves(2, 120) != waves
    assert drawn_waves(1, 0) == []


def test_denials_addresses_and_acls_of_everybody_are_drawn() -> None:
    waves = drawn_waves(1, 500)
    grants = [grant for wave in waves for user in wave.users for grant in user.acls]
    assert {grant.host for grant in grants} == {"*", "127.0.0.1", "10.0.0.1"}
    assert {grant.permission for grant in grants} == {Permission.ALLOW, Permission.DENY}
    assert any(wave.everybody.acls for wave in waves)
    assert Persona(EVERYBODY).principal == "User:*"


def test_a_refusal_by_one_server_alone_is_a_difference_of_rights() -> None:
    found = judged(topics(0, TOPIC_REFUSED), topics(0, 0))
    assert (found.acls, found.errors) == (1, 1)
    assert judged(CLOSED, topics(0)).acls == 1


def test_what_one_server_leaves_out_is_a_difference_of_rights() -> None:
    assert judged(topics(0), topics(0, 0)).acls == 1


def test_other_codes_are_a_difference_of_errors_alone() -> None:
    found = judged(topics(UNKNOWN_TOPIC), topics(0))
    assert (found.acls, found.errors) == (0, 1)
    assert (judged(topics(0), topics(0)).acls, judged(topics(0), topics(0)).errors) == (0, 0)


def test_an_acl_that_one_server_lists_is_a_difference_of_rights() -> None:
    found = Judged()
    found.add_listings(["User:a has READ"])
    assert found.acls == 1
    assert list(found.lines()) == ["listed by one server: User:a has READ"]
