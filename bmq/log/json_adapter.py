"""The parts of pydantic that this package uses. Pydantic is imported when a document is first read or written.

Its import takes longer than everything else that a process needs to compact a log (bmq.server.compaction_worker).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
else:
    ConfigDict = dict

    class Field:
        """Bounds of a number, as keyword arguments: `ge`, `gt`, `le`, `lt`, `multiple_of`."""

        def __init__(self, **bounds: float) -> None:
            self._bounds = bounds

        def __get_pydantic_core_schema__(self, of: Any, schema_of: Any) -> Any:
            return {**schema_of(of), **self._bounds}

    class ValidationError(ValueError):
        """A document that does not match its type; pydantic's error is the cause."""

        def error_count(self) -> int:
            return self.__cause__.error_count()

    class TypeAdapter:
        """A pydantic.TypeAdapter that is made at its first use."""

        def __init__(self, of: Any) -> None:
            self._of = of

        @cached_property
        def _adapter(self) -> Any:
            from pydantic import TypeAdapter

            return TypeAdapter(self._of)

        def dump_json(self, value: Any, **options: Any) -> bytes:
            return self._adapter.dump_json(value, **options)

        def validate_json(self, data: bytes) -> Any:
            """Decode and check a JSON document. Raises ValidationError."""
            from pydantic import ValidationError as Invalid

            try:
                return self._adapter.validate_json(data)
            except Invalid as error:
                raise ValidationError(str(error)) from error


__all__ = ["ConfigDict", "Field", "TypeAdapter", "ValidationError"]
