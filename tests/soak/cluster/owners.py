"""Who owned which partition under which epoch, as the nodes tell it, and whether the log agrees with it. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.soak.cluster.ledger import Ledger

NOBODY: Final = -1


class Owners:
    """Filled from the pages of all nodes, again and again: each keeps only the newest changes."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._owners: dict[tuple[int, int], int] = {}
        self.problems: list[str] = []

    @property
    def change_count(self) -> int:
        """Epochs that were given to somebody, all partitions together."""
        return len(self._owners)

    def of(self, partition: int, leader_epoch: int) -> int:
        """Node id; NOBODY: nobody was said to have it."""
        return self._owners.get((partition, leader_epoch), NOBODY)

    def add(self, partition: int, leader_epoch: int, leader: int) -> None:
        if leader == NOBODY:
            return
        known = self._owners.setdefault((partition, leader_epoch), leader)
        if known != leader:
            problem = f"partition {partition} was given to both {known} and {leader} under epoch {leader_epoch}"
            if problem not in self.problems:
                self.problems.append(problem)

    def add_topic_page(self, page: Mapping[str, Any]) -> None:
        """`GET /v1/topics/…`."""
        for one in page["partitions"]:
            self.add(one["partition"], one["leader_epoch"], one["leader"])

    def add_history_page(self, page: Mapping[str, Any]) -> None:
        """`GET /v1/history`."""
        for change in page["changes"]:
            if change["topic"] == self._topic:
                self.add(change["partition"], change["leader_epoch"], change["leader"])

    def check(self, partition: int, ledger: Ledger, holders: Mapping[int, int]) -> list[str]:
        """What is wrong with a log. `holders`: by leader epoch, the node that wrote its name into the epoch's directory."""
        found = []
        for leader_epoch, offset in ledger.epoch_starts():
            owner, holder = self.of(partition, leader_epoch), holders.get(leader_epoch, NOBODY)
            where = f"epoch {leader_epoch}, whose first batch in partition {partition} is at {offset},"
            if owner == NOBODY:
                found.append(f"{where} was given to nobody")
            elif holder == NOBODY:
                found.append(f"{where} has no directory with a name in it")
            elif owner != holder:
                found.append(f"{where} was given to node {owner} and is node {holder}'s")
        return found
