"""The process that produces a lane's records: `python -m bmq.databus.lanes.producer_main DESCRIPTOR`, of its socket."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Final

from bmq.databus.lanes.kafka_transactions import KafkaTransactions, TransactionConfig
from bmq.databus.lanes.producer_messages import Add, Answer, Close, Commit, Committed, Failed, Refused, Start, Started
from bmq.databus.lanes.transactions import SendFailed, TopicsRefused, Transactions
from bmq.databus.spool.frame import records_of

NICENESS: Final = 10
"""Applications wait for the agent, and nobody for this process."""


def serve(connection: Connection, transactions_of: Callable[[TransactionConfig], Transactions]) -> None:
    """Answer requests until the other end is closed."""
    transactions: Transactions | None = None
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        if isinstance(request, Start) and transactions is None:
            transactions = transactions_of(request.config)
        assert transactions is not None, "a lane starts first"
        if isinstance(request, Add):
            transactions.add(list(records_of(request.frames)))
        elif isinstance(request, Close):
            transactions.close()
        else:
            connection.send(_answer(transactions, request))


def _answer(transactions: Transactions, request: Start | Commit) -> Answer:
    try:
        if isinstance(request, Start):
            return Started(transactions.start(request.batch_bytes))
        transactions.commit(request.position)
    except SendFailed as error:
        return Failed(str(error))
    except TopicsRefused as error:
        return Refused(error.topics)
    return Committed()


def _end_with_agent(descriptor: int) -> None:
    """Also within a call: the next process that starts ends the transaction of this one."""
    poll = select.poll()
    poll.register(descriptor, 0)  # which tells of the other end's close alone
    poll.poll()
    os._exit(0)


def main() -> None:
    descriptor = int(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM):  # they are for the agent, which produces what it has before it stops
        signal.signal(number, signal.SIG_IGN)
    os.nice(NICENESS)
    threading.Thread(target=_end_with_agent, args=(descriptor,), daemon=True).start()
    serve(Connection(descriptor), KafkaTransactions)


if __name__ == "__main__":
    main()
