"""Descriptor sets as text: Base64 of what `protoc --include_imports --descriptor_set_out` writes. Decisions only.

What the bytes contain is checked by messages.py, which imports Protobuf's library.
"""

from __future__ import annotations

import base64
from typing import Final

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError


def _checked(text: str) -> str:
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        raise PydanticCustomError("descriptor_set", "it is not Base64") from None
    return text


IS_BASE64: Final = AfterValidator(_checked)
"""Refuses a text of a model that is not Base64."""
