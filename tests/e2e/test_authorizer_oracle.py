"""Decisions about random ACLs beside Kafka's own StandardAuthorizer, in a JVM of its own."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Final
from uuid import UUID

import pytest

from bmq.security.acls import CLUSTER_NAME, Acl, Operation, PatternType, Permission, ResourceType
from bmq.security.authorizer import Decider
from testing.java import class_path, compile_program, java_executable
from testing.patience import Patience
from testing.processes import REPOSITORY, dying_with_us

pytestmark = [pytest.mark.clients, pytest.mark.bmq_only]

PROGRAM: Final = REPOSITORY / "tests" / "support" / "java_programs" / "AuthorizerOracle.java"
SETS: Final = 600
QUESTIONS: Final = 40
TYPES: Final = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID, ResourceType.CLUSTER)
OPERATIONS: Final = tuple(set(Operation) - {Operation.UNKNOWN, Operation.ANY})
NAMES: Final = ("a", "ab", "abc", "b", "bc", "*", "ba", "abcd")
PRINCIPALS: Final = ("User:alice", "User:bob", "User:*", "Group:alice", "User:carol")
HOSTS: Final = ("*", "127.0.0.1", "10.0.0.1")
ANSWER_WAIT_S: Final = 120


class Story:
    """One set of ACLs, the lines that the oracle reads, and what bmq decides for each question."""

    def __init__(self, dice: random.Random) -> None:
        super_users = frozenset(dice.sample(("User:root", "User:carol"), dice.randint(0, 2)))
        allows = dice.random() < 0.5
        self.decider = Decider(super_users, allows_without_acl=allows)
        self.lines = [f"begin\t{';'.join(sorted(super_users))}\t{'true' if allows else 'false'}"]
        self.decided: list[bool] = []
        self._acls: set[Acl] = set()
        for number in range(dice.randint(0, 12)):
            self._add(dice, number)
        for _ in range(QUESTIONS):
            self._ask(dice)

    def _add(self, dice: random.Random, number: int) -> None:
        kind = dice.choice(TYPES)
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else dice.choice(NAMES)
        pattern = PatternType.LITERAL if kind is ResourceType.CLUSTER else dice.choice(
            (PatternType.LITERAL, PatternType.PREFIXED)
        )  # fmt: skip
        acl = Acl(
            kind,
            name,
            pattern,
            dice.choice(PRINCIPALS),
            dice.choice(HOSTS),
            dice.choice(OPERATIONS),
            dice.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
        )
        if acl in self._acls:
            return  # Kafka's log has none twice
        self._acls.add(acl)
        self.decider.put(UUID(int=number + 1), acl)
        self.lines.append("\t".join(("acl", *(str(int(x)) if not isinstance(x, str) else x for x in acl))))

    def _ask(self, dice: random.Random) -> None:
        principal, host = dice.choice((*PRINCIPALS[:2], "User:root", "User:carol")), dice.choice(HOSTS[1:])
        operation, kind = dice.choice(OPERATIONS[1:]), dice.choice(TYPES)
        if operation is Operation.ALL:
            operation = Operation.READ
        if dice.random() < 0.2 and kind is not ResourceType.CLUSTER:
            self.lines.append(f"any\t{principal}\t{host}\t{int(operation)}\t{int(kind)}")
            self.decided.append(self.decider.decide_by_type(principal, host, operation, kind).is_allowed)
            return
        name = CLUSTER_NAME if kind is ResourceType.CLUSTER else dice.choice([one for one in NAMES if one != "*"])
        self.lines.append(f"ask\t{principal}\t{host}\t{int(operation)}\t{int(kind)}\t{name}")
        self.decided.append(self.decider.decide(principal, host, operation, kind, name).is_allowed)


def test_random_acls_decide_as_kafkas_authorizer(tmp_path: Path) -> None:
    stories = [Story(random.Random(seed)) for seed in range(SETS)]
    compile_program(PROGRAM, "kafka", tmp_path)
    done = subprocess.run(
        dying_with_us([java_executable(), "-cp", f"{tmp_path}:{class_path('kafka')}", "AuthorizerOracle"]),
        input="".join(f"{line}\n" for story in stories for line in story.lines),
        capture_output=True,
        text=True,
        timeout=Patience(ANSWER_WAIT_S).limit_s,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4_000:]
    answers = iter(line == "ALLOWED" for line in done.stdout.split())
    differences = []
    for seed, story in enumerate(stories):
        questions = [line for line in story.lines if line.startswith(("ask", "any"))]
        for question, ours in zip(questions, story.decided, strict=True):
            if next(answers) != ours:
                differences.append((seed, question.replace("\t", " "), ours))
    assert differences == []
    assert next(answers, None) is None
    allowed = [one for story in stories for one in story.decided]
    assert 0.1 < sum(allowed) / len(allowed) < 0.9
