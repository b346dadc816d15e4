"""Groups and commands that are imported only when they are used: a server needs none, and starts sooner."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any, Final

from typer.core import TyperGroup
from typer.main import get_command, get_group

LATE_GROUPS: Final = {
    "cluster": ("bmq.cli.cluster", "cluster_app"),
    "topic": ("bmq.cli.topic", "topic_app"),
    "view": ("bmq.cli.view", "view_app"),
    "group": ("bmq.cli.group", "group_app"),
    "lane": ("bmq.cli.lane", "lane_app"),
    "transaction": ("bmq.cli.transaction", "transaction_app"),
    "user": ("bmq.cli.user", "user_app"),
    "token": ("bmq.cli.rest_token", "token_app"),
    "profile": ("bmq.cli.profile_command", "profile_app"),
    "config": ("bmq.cli.config", "config_app"),
    "acl": ("bmq.cli.acl", "acl_app"),
    "log": ("bmq.cli.log", "log_app"),
    "metadata": ("bmq.cli.metadata", "metadata_app"),
    "table": ("bmq.cli.table", "table_app"),
    "databus": ("bmq.cli.databus", "databus_app"),
    "index": ("bmq.cli.index", "index_app"),
    "dev": ("bmq.cli.dev", "dev_app"),
    "gateway": ("bmq.cli.gateway", "gateway_app"),
    "spark": ("bmq.cli.spark", "spark_app"),
}
"""Module and variable of each group."""

LATE_COMMANDS: Final = {
    "doctor": ("bmq.cli.doctor.command", "doctor_app"),
    "man": ("bmq.cli.man", "man_app"),
    "plan": ("bmq.cli.sizing.command", "plan_app"),
    "support-bundle": ("bmq.cli.support_bundle.command", "support_bundle_app"),
}
"""Module and variable of each command by itself: a Typer with that command alone."""
_LATE: Final = (*LATE_GROUPS, *LATE_COMMANDS)


_PROFILE: Final = "--profile"


def _with_profile_first(arguments: list[str]) -> list[str]:
    """`--profile NAME` may stand behind the command as well. Words behind `--` are no options."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    for place, word in enumerate(arguments[:end]):
        if word == _PROFILE or word.startswith(f"{_PROFILE}="):
            after = place + (2 if word == _PROFILE else 1)
            return arguments[place:after] + arguments[:place] + arguments[after:]
    return arguments


class WithLateGroups(TyperGroup):
    """The group of all commands. Listing them imports all that are late, and so does an unknown name (a typing error)."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, _with_profile_first(args))

    # `Any`: click's classes, which older releases of typer import and newer ones copy.
    def list_commands(self, ctx: Any) -> list[str]:
        self._load(_LATE)
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._load([cmd_name] if cmd_name in _LATE else _LATE)
        return super().get_command(ctx, cmd_name)

    def _load(self, names: Iterable[str]) -> None:
        for name in names:
            if name in self.commands:
                continue
            if name in LATE_GROUPS:
                module, variable = LATE_GROUPS[name]
                group = self.commands[name] = get_group(getattr(import_module(module), variable))
                group.name = name
            else:
                module, variable = LATE_COMMANDS[name]
                self.commands[name] = get_command(getattr(import_module(module), variable))
