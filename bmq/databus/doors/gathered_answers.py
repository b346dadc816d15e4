"""The answers to the records of one request: of HTTP or of gRPC. `done` is set when all of them are there."""

from __future__ import annotations

import asyncio

from bmq.databus.rules import Refusal
from bmq.databus.socket_frame import Answer, Code, parse_answer


class GatheredAnswers:
    """A sink of the intake for `count` records."""

    def __init__(self, count: int) -> None:
        self.answers: list[Answer] = []
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count = count

    def answer(self, content: bytes) -> None:
        self.answers.append(parse_answer(content)[0])

    def flush_answers(self) -> None:
        if len(self.answers) >= self._count and not self.done.done():
            self.done.set_result(None)

    @property
    def numbers(self) -> list[int]:
        """The numbers of the accepted records, in order."""
        return [answer.number for answer in self.answers if answer.code is Code.ACCEPTED]

    @property
    def sampled_out(self) -> int:
        return sum(answer.code is Code.SAMPLED_OUT for answer in self.answers)

    @property
    def refusal(self) -> Refusal | None:
        """The refusal of the first record that could not be written to the spool; None if all were."""
        failed = next((answer for answer in self.answers if answer.code >= Code.RETRY), None)
        return None if failed is None else Refusal(failed.code, failed.sentence, failed.retry_after_ms)
