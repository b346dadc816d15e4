"""Hands records to the Databus agent of this host: python docs/databus_client.py SOCKET CHANNEL < lines"""

import socket
import struct
import sys


class Databus:
    """`send` does not wait for the answer; `answers` reads those of the records that were sent, in order."""

    def __init__(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._answers = self._socket.makefile("rb")
        self._sent = 0

    def send(self, channel: str, value: bytes, key: bytes | None = None, timestamp_ms: int = -1) -> None:
        name = channel.encode()
        key_field = struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
        body = name + key_field + struct.pack(">i", len(value)) + value + struct.pack(">H", 0)
        head = struct.pack(">BBIqB", 1, 1, self._sent & 0xFFFFFFFF, timestamp_ms, len(name))
        self._socket.sendall(struct.pack(">I", len(head) + len(body)) + head + body)
        self._sent += 1

    def answers(self):
        """Code, number, delay in milliseconds and a sentence for each record. Codes below 10: it was taken."""
        while self._sent:
            (length,) = struct.unpack(">I", self._answers.read(4))
            data = self._answers.read(length)
            _, code, _, number, delay_ms, text_length = struct.unpack_from(">BBIqIH", data)
            self._sent -= 1
            yield code, number, delay_ms, data[length - text_length :].decode()


if __name__ == "__main__":
    agent = Databus(sys.argv[1])
    for line in sys.stdin.buffer:
        agent.send(sys.argv[2], line.rstrip(b"\n"))
        for code, number, delay_ms, sentence in agent.answers():
            print(code, number, delay_ms, sentence)
