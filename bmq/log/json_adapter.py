"""What this package uses of pydantic, loaded when a document is first read or written, not with the module that has its type.

Pydantic takes longer to load than everything else that a process needs to clean a log (bmq.server.compaction_worker).
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
else:
    ConfigDict = dict

    class Field:
        """Bounds of a number: `ge`, `gt`, `le`, `lt`, `multiple_of`."""

        def __init__(self, **bounds: float) -> None:
            self._bounds = bounds

        def __get_pydantic_core_schema__(self, of: Any, schema_of: Any) -> Any:
            return {**schema_of(of), **self._bounds}

    class ValidationError(ValueError):
        """A document that is not of its type; pydantic's error is its cause."""

        def error_count(self) -> int:
            return self.__cause__.error_count()

    class TypeAdapter:
        """As pydantic's, but made at its first use."""

        def __init__(self, of: Any) -> None:
            self._of = of

        @cached_property
        def _adapter(self) -> Any:
            from pydantic import TypeAdapter

            return TypeAdapter(self._of)

        def dump_json(self, value: Any, **options: Any) -> bytes:
            return self._adapter.dump_json(value, **options)

        def validate_json(self, data: bytes) -> Any:
            """Raises ValidationError."""
            from pydantic import ValidationError as Invalid

            try:
                return self._adapter.validate_json(data)
            except Invalid as error:
                raise ValidationError(str(error)) from error


__all__ = ["ConfigDict", "Field", "TypeAdapter", "ValidationError"]
