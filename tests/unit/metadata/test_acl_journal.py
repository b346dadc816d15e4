"""What changed between two images of the ACLs: applied to the earlier one it gives the later one."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis.strategies import booleans, integers, lists, tuples

from bmq.metadata import acl_journal
from bmq.metadata.acl_journal import AclJournal
from bmq.security.acls import Acl, Operation, PatternType, Permission, ResourceType

pytestmark = pytest.mark.unit


def acl(number: int) -> Acl:
    return Acl(ResourceType.TOPIC, f"t{number}", PatternType.LITERAL, "User:a", "*", Operation.READ, Permission.ALLOW)


@given(lists(tuples(integers(0, 4), integers(0, 3), booleans()), max_size=30))
def test_the_changes_lead_from_each_image_to_each_later_one(steps: list[tuple[int, int, bool]]) -> None:
    """An id, its ACL (0: it is removed), and whether an image is made behind it."""
    journal = AclJournal()
    images = [journal.snapshot()]
    model: dict[UUID, Acl] = {}
    for key, number, is_image in steps:
        acl_id = UUID(int=key)
        if number:
            journal.put(acl_id, acl(number))
            model[acl_id] = acl(number)
        else:
            assert journal.remove(acl_id) == (model.pop(acl_id, None) is not None)
        if is_image:
            images.append(journal.snapshot())
            assert images[-1] == model
    for index, later in enumerate(images):
        for earlier in images[: index + 1]:
            made = dict(earlier)
            changes = later.since(earlier)
            assert changes is not None
            for acl_id, change in changes:
                made.pop(acl_id, None)
                if change is not None:
                    made[acl_id] = change
            assert made == later


def test_an_image_is_the_same_object_while_nothing_changes() -> None:
    journal = AclJournal()
    journal.put(UUID(int=1), acl(1))
    first = journal.snapshot()
    assert journal.snapshot() is first and first.since(first) == []
    journal.put(UUID(int=2), acl(2))
    assert UUID(int=2) not in first and journal.snapshot() is not first


def test_what_is_forgotten_or_of_another_log_has_to_be_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acl_journal, "CHANGES_MAX", 3)
    journal = AclJournal()
    oldest = journal.snapshot()
    journal.put(UUID(int=1), acl(1))
    older = journal.snapshot()
    for number in range(2, 5):
        journal.put(UUID(int=number), acl(number))
    newest = journal.snapshot()
    assert newest.since(oldest) is None
    assert [acl_id.int for acl_id, _ in newest.since(older) or ()] == [2, 3, 4]
    assert newest.since(AclJournal().snapshot()) is None and newest.since({}) is None and newest.since(None) is None
    assert older.since(newest) is None
