"""Writes a connection's answers: to its transport, to a TLS transport in pieces, or (parts in files) directly to the socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from bmq.protocol.parts import Part
from bmq.protocol.wire import Buffer
from bmq.proxy.encrypted_sender import EncryptedSender
from bmq.proxy.fetch_budget import ResponseBudget
from bmq.proxy.file_sender import FileSender


class Writing(Protocol):
    """The connection, as the writer calls it back."""

    def writing_moved(self) -> None:
        """The client has read some bytes."""

    def writing_resumed(self) -> None:
        """The client has read all answers: the connection may begin requests again."""

    def writing_failed(self, error: OSError) -> None:
        """Writing failed within an answer, so nothing may be sent behind it."""


class AnswerWriter:
    """Writes the answers of one connection.

    `is_paused`: the client has left more than `unsent_bytes_max` unread, so the connection begins no request. `budget`: that of
    answers in memory, given for a TLS transport only. The transport's protocol passes `pause_writing` and `resume_writing` on.
    """

    __slots__ = ("_encrypted", "_loop", "_owner", "_sender", "_transport", "_unsent_bytes_max", "is_paused")

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        owner: Writing,
        unsent_bytes_max: int,
        budget: ResponseBudget | None,
    ) -> None:
        self._loop = loop
        self._transport = transport
        self._owner = owner
        self._unsent_bytes_max = unsent_bytes_max
        self._sender: FileSender | None = None  # replaces the transport from the first answer with parts in files on
        self._encrypted = None if budget is None else EncryptedSender(loop, transport, self, budget)
        self.is_paused = False

    def begin(self) -> None:
        """Begin; from here on the transport may call the protocol back."""
        if self._encrypted is None:
            self._transport.set_write_buffer_limits(high=self._unsent_bytes_max)
        else:
            self._encrypted.begin()

    def write(self, parts: Sequence[Part], *, has_files: bool) -> None:
        """Send these parts behind all earlier ones. `has_files`: whether some are in files."""
        if self._encrypted is not None:
            self._encrypted.send(parts)
            self._pause_if_full(self._encrypted)
        elif has_files or self._sender is not None:
            self._send(parts)
        else:
            self._transport.writelines(cast(Sequence[Buffer], parts))

    @property
    def unsent_bytes(self) -> int:
        """Bytes that are not given to the transport yet."""
        sender = self._encrypted or self._sender
        return 0 if sender is None else sender.unsent_bytes

    def pause_writing(self) -> None:
        if self._encrypted is None:  # that one looks by itself
            self.is_paused = True

    def resume_writing(self) -> None:
        sender = self._sender
        if self._encrypted is not None:
            self._encrypted.resume()
        elif sender is not None and not sender.has_begun:
            sender.begin()
            self._pause_if_full(sender)
        else:
            self._owner.writing_moved()
            self.all_sent()

    def close(self) -> None:
        """Drop all unsent answers."""
        for sender in (self._sender, self._encrypted):
            if sender is not None:
                sender.close()

    def _send(self, parts: Sequence[Part]) -> None:
        sender = self._sender
        if sender is None:
            descriptor = self._transport.get_extra_info("socket").fileno()
            sender = self._sender = FileSender(self._loop, descriptor, self)
            if self._transport.get_write_buffer_size():
                self._transport.set_write_buffer_limits(high=0)  # `resume_writing` is called when everything is sent
            else:
                sender.begin()
        sender.send(parts)
        self._pause_if_full(sender)

    def _pause_if_full(self, sender: FileSender | EncryptedSender) -> None:
        """Pause, as the transport would, if more than the limit is unsent. It lasts until everything is sent."""
        if sender.unsent_bytes > self._unsent_bytes_max:
            self.is_paused = True

    def sending_moved(self) -> None:
        """Implements Sending.sending_moved."""
        self._owner.writing_moved()

    def all_sent(self) -> None:
        """Implements Sending.all_sent."""
        self.is_paused = False
        self._owner.writing_resumed()

    def sending_failed(self, error: OSError) -> None:
        """Implements Sending.sending_failed."""
        self._owner.writing_failed(error)
