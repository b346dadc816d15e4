"""Schemas of a topic's values from a registry with Confluent's REST API, by confluent-kafka's own client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bmq.extras import install_command
from bmq.protocol.errors import BmqError
from bmq.table_definitions.definition import DEFINITION_BYTES_MAX
from bmq.table_definitions.from_registry import RegisteredVersion

TIMEOUT_S: Final = 10.0
RETRIES_MAX: Final = 2
VERSIONS_MAX: Final = 1_000
_NOT_FOUND: Final = 404
_REASON_CHARACTERS_MAX: Final = 300
PROTOBUF: Final = "PROTOBUF"
IMPORTS_MAX: Final = 100
IMPORTS_CHARACTERS_MAX: Final = 4 * DEFINITION_BYTES_MAX


class RegistryFailed(BmqError):
    """The registry gave no usable answer; one sentence without a secret."""


class Registry:
    """`settings`: of confluent-kafka's SchemaRegistryClient (basic.auth.user.info, ssl.ca.location …).

    Raises RegistryFailed: the library is missing, or a setting cannot be used.
    """

    def __init__(self, url: str, settings: Mapping[str, str]) -> None:
        try:
            from confluent_kafka.schema_registry import SchemaRegistryClient
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] == "bmq":
                raise
            raise RegistryFailed(f"a schema registry needs {error.name}: {install_command('registry')}") from error
        if "@" in url:
            raise RegistryFailed("the registry's URL has a login in it, which others see: put it into a file, @FILE")
        if not url.startswith(("http://", "https://")):
            raise RegistryFailed(f"{url[:80]!r} is no URL of a registry: it begins with http:// or https://")
        self._url = url
        limits = {"timeout": TIMEOUT_S, "max.retries": RETRIES_MAX, "retries.max.wait.ms": 1_000}
        try:
            self._client: Any = SchemaRegistryClient({**settings, **limits, "url": url})
            # The client remembers a version without regard to the form that it was asked for.
            self._compiling: Any = SchemaRegistryClient({**settings, **limits, "url": url})
        except (ValueError, TypeError, OSError) as error:
            # Its sentences name settings, not their values; those of files name the file.
            raise RegistryFailed(f"the registry's settings cannot be used: {error}") from None

    def versions(self, subject: str, from_version: int = 1) -> list[RegisteredVersion]:
        """Oldest first, without versions below `from_version` and deleted ones. Raises RegistryFailed."""
        numbers = sorted(number for number in self._asked("get_versions", subject) if number >= from_version)
        if len(numbers) > VERSIONS_MAX:
            raise RegistryFailed(f"subject {subject} has {len(numbers)} versions; take those from a number on")
        return [self._version(subject, number) for number in numbers]

    def _version(self, subject: str, number: int) -> RegisteredVersion:
        found = self._asked("get_version", subject, number)
        kind = found.schema.schema_type or "AVRO"
        if kind != PROTOBUF:
            text = _text(found, subject, number)
            return RegisteredVersion(number, found.schema_id, kind, text, bool(found.schema.references))
        imports: dict[str, str] = {}
        text = self._compiled(subject, number, imports)
        return RegisteredVersion(number, found.schema_id, kind, text, bool(imports), imports)

    def _compiled(self, subject: str, number: int, imports: dict[str, str]) -> str:
        """A Protobuf schema as the registry compiles it; those that it refers to come into `imports`."""
        waiting = [("", subject, number)]
        texts: list[str] = []
        while waiting:
            name, subject, number = waiting.pop()
            if name in imports:
                continue
            found = self._asked("get_version", subject, number, client=self._compiling, fmt="serialized")
            text = _text(found, subject, number)
            texts.append(text)
            if name:
                imports[name] = text
            if len(imports) > IMPORTS_MAX or sum(map(len, texts)) > IMPORTS_CHARACTERS_MAX:
                raise RegistryFailed(
                    f"subject {subject}, version {number}: a schema with more than {IMPORTS_MAX} imports, or "
                    f"{IMPORTS_CHARACTERS_MAX} characters in all, is not read"
                )
            waiting += [
                (str(each.name), str(each.subject), int(each.version)) for each in found.schema.references or ()
            ]
        return texts[0]

    def _asked(self, method: str, subject: str, *arguments: Any, client: Any = None, **options: str) -> Any:
        from confluent_kafka.schema_registry.error import SchemaRegistryError

        try:
            return getattr(client or self._client, method)(subject, *arguments, **options)
        except SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND:
                raise RegistryFailed(f"the registry at {self._url} has no subject {subject}") from None
            why = str(error.error_message)[:_REASON_CHARACTERS_MAX]
            raise RegistryFailed(f"the registry at {self._url} refused with {error.http_status_code}: {why}") from None
        except Exception as error:  # noqa: BLE001 the client has errors of httpx, of JSON and of its own
            why = str(error)[:_REASON_CHARACTERS_MAX] or type(error).__name__
            raise RegistryFailed(f"the registry at {self._url} cannot be asked: {why}") from None


def _text(found: Any, subject: str, number: int) -> str:
    """Raises RegistryFailed."""
    text = found.schema.schema_str
    if not isinstance(text, str) or len(text) > DEFINITION_BYTES_MAX:
        raise RegistryFailed(
            f"subject {subject}, version {number}: its schema is longer than {DEFINITION_BYTES_MAX} characters, or none"
        )
    return text
