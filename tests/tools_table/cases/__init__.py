"""Every case, in the order of the tools they are for."""

from __future__ import annotations

from tests.tools_table.case import Case
from tests.tools_table.cases import clients, configs, groups, topics, transactions


def all_cases() -> list[Case]:
    return [case for module in (topics, configs, groups, transactions, clients) for case in module.CASES.found]
