"""Half messages' benchmark: which checks it calls wrong, how its service answers, and what is judged."""

from __future__ import annotations

from typing import Any

import pytest

from bench.criteria import BMQ, KAFKA, Evidence
from bench.queues.half.check_book import Asked, CheckBook, Decided, Terms
from bench.queues.half.checks import FIRST_MS_MIN, Service, decided_numbers, terms_of
from bench.queues.half.criteria import BY_HTTP, BY_RECORD, CHECKS, HALF, judge
from bmq.broker.half_checker import Check, CheckRequest
from bmq.server.check_bodies import SIGNATURE, answer_of, body_of, signed

pytestmark = pytest.mark.campaign("unit")

TERMS = Terms(first_ms=6_000, interval_ms=30_000, checks_max=2)
SECRET = b"0123456789abcdef"


def book(**decided: Decided) -> CheckBook:
    """One message that was held at 1,000, so it is checked at 7,000 and at 37,000."""
    return CheckBook(TERMS, {0: 1_000}, dict.fromkeys([0], decided["at"]) if decided else {})


def wrong(found: dict[str, Any]) -> dict[str, int]:
    names = ("missing", "doubled", "early", "late", "after_decision", "unknown")
    return {name: found[name] for name in names if found[name]}


def test_checks_at_their_times_are_right() -> None:
    checks = book()
    checks.asked(0, 1, Asked(7_000, 7_900))
    checks.asked(0, 2, Asked(37_100, 38_000))
    found = checks.found(100_000)
    assert wrong(found) == {} and found["right_percent"] == 100
    assert (found["p99_ms"], found["max_ms"], found["checks"]) == (1_000, 1_000, 2)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([(0, 1, 6_999, 7_000)], {"early": 1, "missing": 1}),
        ([(0, 1, 7_000, 8_001)], {"late": 1, "missing": 1}),
        ([(0, 1, 7_000, 7_000), (0, 1, 7_001, 7_001)], {"doubled": 1, "missing": 1}),
        ([(0, 1, 7_000, 7_000), (5, 1, 7_000, 7_000)], {"unknown": 1, "missing": 1}),
        ([(0, 1, 7_000, 7_000), (0, 2, 37_000, 37_000), (0, 3, 67_000, 67_000)], {"unknown": 1}),
        ([], {"missing": 2}),
    ],
)
def test_what_is_wrong_is_counted(asked: list[tuple[int, int, int, int]], said: dict[str, int]) -> None:
    checks = book()
    for number, check, asked_ms, came_ms in asked:
        checks.asked(number, check, Asked(asked_ms, came_ms))
    found = checks.found(38_001)
    assert wrong(found) == said and found["right_percent"] < 100


def test_the_first_check_waits_until_a_busy_machine_holds_all() -> None:
    assert terms_of(100_000, 5_000, 200).first_ms == FIRST_MS_MIN
    assert terms_of(100_000, 5_000, 2_000).first_ms == 60_000


def test_a_check_that_still_has_time_is_not_missing() -> None:
    checks = book()
    checks.asked(0, 1, Asked(7_000, 7_000))
    assert wrong(checks.found(38_000)) == {}


def test_none_is_wanted_behind_a_decision_and_none_may_come() -> None:
    decided = Decided(sent_ms=37_050, known_ms=37_100)
    checks = book(at=decided)
    checks.asked(0, 1, Asked(7_000, 7_000))
    assert wrong(checks.found(100_000)) == {}
    checks.asked(0, 2, Asked(37_100, 37_500))
    assert wrong(checks.found(100_000)) == {}, "it was on its way"
    late = book(at=decided)
    late.asked(0, 1, Asked(7_000, 7_000))
    late.asked(0, 2, Asked(37_101, 37_500))
    assert wrong(late.found(100_000)) == {"after_decision": 1}


def test_the_service_decides_two_of_three_at_their_second_check() -> None:
    def post(number: int) -> list[tuple[int, ...]]:
        checks = tuple(Check(offset=10 + at, check_id=str(at), number=number) for at in range(6))
        posted = signed(body_of(CheckRequest("orders", 1, checks)), SECRET, 9_000)
        given = service.answer(posted.body, posted.headers[SIGNATURE], 9_100)
        answer = answer_of(200, repr(given).replace("'", '"').encode())
        return [answer.committed, answer.rolled_back]

    service = Service(SECRET)
    assert post(1) == [(), ()] and not service.decided
    assert post(2) == [(10, 13), (11, 14)]
    assert sorted(service.decided) == decided_numbers(6) == [0, 1, 3, 4]
    assert service.asked[0] == (0, 1, Asked(9_000, 9_100)) and not service.failures


def test_a_check_that_is_not_signed_is_told() -> None:
    service = Service(SECRET)
    posted = signed(body_of(CheckRequest("orders", 1, ())), b"another secret of us", 9_000)
    service.answer(posted.body, posted.headers[SIGNATURE], 9_100)
    assert service.failures == ["a check whose signature is wrong"]


def judged(parts: dict[str, Any]) -> dict[str, Any]:
    return {one["id"]: one for one in judge(Evidence(parts, {}, {part: {"revision": "abc"} for part in parts}, {}))}


def small(count: int) -> dict[str, Any]:
    whole = {"p50_us": 1_000, "p99_us": 2_000}
    return {"small": {"transactions": count, "seconds": 2, "server_cpu_s": 1, "whole": whole}}


def test_half_messages_are_judged_beside_transactions() -> None:
    found = judged({HALF: {"wanted": 1, "pairs": [{BMQ: small(290), KAFKA: small(100)}]}})
    assert (found["half_message_ratio"]["value"], found["half_message_ratio"]["holds"]) == (2.9, False)
    assert found["half_message_cpu_ratio"]["value"] == pytest.approx(100 / 290, abs=1e-4)
    assert found["half_message_p99_ratio"]["value"] == 1


def test_one_wrong_check_is_not_all() -> None:
    def checks(percent: float) -> dict[str, Any]:
        return {"right_percent": percent, "p99_ms": 200, "max_ms": 300, "after_decision": 0}

    rounds = [{BY_RECORD: checks(99.9999), BY_HTTP: checks(100)}]
    found = judged({CHECKS: {BMQ: {"wanted": 1, "rounds": rounds}}})
    assert found["check_back"]["value"] == 99.9999 and not found["check_back"]["holds"]
    assert found["check_back_http"]["value"] == 100
