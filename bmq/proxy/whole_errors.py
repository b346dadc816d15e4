"""The answer to a request that failed as a whole, for APIs whose response has a place for one error code."""

from __future__ import annotations

import dataclasses
from typing import Any

from bmq.protocol.apis import ApiKey
from bmq.protocol.codec import message_format


def error_response(api_key: ApiKey, code: int, message: str) -> Any:
    """The API's response with this code and, where it has one, this message; None when it has no place for a code.

    (Its handler then had to put the code into every part; a connection that gets None here is closed, as Kafka does.)
    """
    response = message_format("response", api_key).message_class
    names = {field.name for field in dataclasses.fields(response)}
    if "error_code" not in names:
        return None
    filled: dict[str, Any] = {"error_code": code}
    if "error_message" in names and message:
        filled["error_message"] = message
    return response(**filled)
