"""The levels of this process's loggers, changed at run time: config resources of type BROKER_LOGGER (KIP-412). Pure.

Changes belong to one process and end with it, as in Kafka. Codes and messages are those of Kafka's ConfigAdminManager (4.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.metadata.config_keys import InvalidConfig, Operation
from bmq.protocol.error_codes import ErrorCode
from bmq.protocol.errors import KafkaError
from bmq.protocol.messages.incremental_alter_configs_request import AlterableConfig

ROOT: Final = "root"
LOGGERS: Final = tuple(
    f"bmq.{package}"
    for package in (
        "broker", "cli", "controller", "coordinator", "election", "hdfs", "internal", "log", "membership", "operations",
        "peers", "proxy", "rest", "routing",
    )
)  # fmt: skip
"""A logger for each package that logs."""
LEVELS: Final = {"FATAL": 50, "ERROR": 40, "WARN": 30, "INFO": 20, "DEBUG": 10, "TRACE": 5}
"""Kafka's names of levels, with the numbers of Python's logging."""
_KAFKAS_NAMES: Final = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class LogLevels:
    """The levels of all loggers. `root`: the level of loggers without one of their own, by Kafka's name or Python's."""

    def __init__(self, root: str = "INFO") -> None:
        self._levels = {ROOT: _KAFKAS_NAMES.get(root.upper(), root.upper())}

    def of(self, name: str) -> str:
        """The effective level of a logger."""
        return self._levels.get(name) or self._levels[ROOT]

    def is_shown(self, name: str, level: int) -> bool:
        """Whether a line of this level is written by the logger."""
        return level >= LEVELS[self.of(name)]

    def described(self) -> dict[str, str]:
        """The effective level of each logger, by name."""
        return {name: self.of(name) for name in (*LOGGERS, ROOT)}

    def alter(self, configs: Sequence[AlterableConfig], *, validate_only: bool = False) -> None:
        """Make all of these changes or none. Raises KafkaError INVALID_REQUEST, InvalidConfig."""
        levels = dict(self._levels)
        if len({config.name for config in configs}) != len(configs):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
        for config in configs:
            name = config.name
            try:
                operation = Operation(config.config_operation)
            except ValueError as error:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Unknown operation {config.config_operation} for config {name}"
                ) from error
            if operation not in (Operation.SET, Operation.DELETE):
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
                )
            if name not in LOGGERS and name != ROOT:
                raise InvalidConfig(f"Logger {name} does not exist!")
            if operation is Operation.SET:
                if config.value not in LEVELS:
                    raise InvalidConfig(
                        f"Cannot set the log level of {name} to {config.value} as it is not a supported log level. "
                        f"Valid log levels are {', '.join(sorted(LEVELS))}"
                    )
                levels[name] = config.value
            elif name == ROOT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
                )
            else:
                levels.pop(name, None)
        if not validate_only:
            self._levels = levels
