"""Wait for the server of `make run`, then produce one record and read it back; needs no more than bmq itself.

python -m tools.first_record [HOST:PORT]
"""

from __future__ import annotations

import struct
import sys
import time

from testing import wire

READY_S = 120.0
TOPIC = "first-record"
VALUE = b"the first one"


def exchange(host: str, port: int) -> None:
    """Raises OSError, AssertionError while it does not serve."""
    with wire.WireClient(port, host=host) as client:
        client.call(wire.METADATA, 4, struct.pack(">i", 1) + wire.string(TOPIC) + b"\1")  # makes the topic
        answer = client.produce(TOPIC, wire.record_batch([VALUE]))
        assert answer.error_code == wire.NONE, answer
        assert VALUE in client.fetch(TOPIC, answer.base_offset, max_wait_ms=1_000).records


def main() -> int:
    host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092").rpartition(":")
    began = time.monotonic()
    while True:
        try:
            exchange(host, int(port))
        except (OSError, AssertionError) as error:
            if time.monotonic() - began > READY_S:
                print(f"nothing serves on {host}:{port} after {READY_S:g} s: {error!r}")
                return 1
            time.sleep(0.1)
        else:
            print(f"a record was produced and read {time.monotonic() - began:.1f} s after the start")
            return 0


if __name__ == "__main__":
    sys.exit(main())
