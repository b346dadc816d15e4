"""The start of the `bmq` command: everything that must happen before its modules are imported.

Ctrl-C before `main` runs would be a traceback, so this module imports little. What is left is the interpreter's own start.
"""

from __future__ import annotations

import os

try:
    import atexit
    import errno
    import gc
    import io
    import signal
    import sys
except KeyboardInterrupt:
    os._exit(130)

_OUTPUT_ENDS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE})
"""A full disk, a limit, or a reader that has gone."""

_SERVERS = frozenset({"standalone", "node", "gateway"})
"""Commands that end in order on SIGTERM and SIGINT, with exit code 0."""

_INTERRUPTED = 130


def main() -> None:
    """Entry point. A known failure is one sentence on standard error and exit code 1, never a traceback.

    Ctrl-C ends a command with exit code 130. A server that gets SIGINT or SIGTERM ends with 0, also while it starts.
    """
    is_server = next((word for word in sys.argv[1:] if not word.startswith("-")), "") in _SERVERS
    numbers = (signal.SIGINT, signal.SIGTERM) if is_server else (signal.SIGINT,)
    _end_on_signals(numbers, 0 if is_server else _INTERRUPTED)
    # The first one registered runs last: behind it, the interpreter takes handlers away and signals would kill.
    atexit.register(_ignore_signals, numbers)
    code: object = 1
    try:
        code = _run(is_server=is_server)
    finally:
        # Interpreter shutdown runs arbitrary code: a second Ctrl-C there would be a traceback.
        _end_on_signals(numbers, code if isinstance(code, int) else int(code is not None))
    sys.exit(code)  # type: ignore[arg-type]


def _end_on_signals(numbers: tuple[signal.Signals, ...], code: int) -> None:
    """End the process at once on these signals. Only while nothing is under way."""
    for number in numbers:
        signal.signal(number, lambda *_: os._exit(code))


def _ignore_signals(numbers: tuple[signal.Signals, ...]) -> None:
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)


def _run(*, is_server: bool) -> object:
    """Returns the exit code, as `sys.exit` takes it."""
    # Frames and batches are freed by reference counting; a full collection over a million live objects only costs
    # latency. Set before any import: objects of modules stay alive, and scanning them again and again took a tenth of a
    # start.
    gc.set_threshold(100_000, 20, 100)

    # What others wrote is shown whatever the terminal's encoding is.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")

    from bmq.cli import shell_completion
    from bmq.cli.commands import app
    from bmq.protocol.errors import BmqError

    if shell_completion.is_asked():
        shell_completion.prepare()
    if not is_server:  # a server's event loop installs its own handlers
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        try:
            app(standalone_mode=True)
        finally:
            if isinstance(sys.stdout, io.TextIOWrapper):
                sys.stdout.flush()  # here it can still be told that nothing more goes there
    except SystemExit as end:
        return end.code
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BmqError as error:
        sys.stderr.write(f"bmq: {error}\n")
        return 1
    except OSError as error:
        if error.errno not in _OUTPUT_ENDS or error.filename is not None:
            raise
        if error.errno != errno.EPIPE:
            sys.stderr.write(f"bmq: standard output takes no more: {error.strerror}\n")
        # Discard buffered output: the interpreter flushes it at exit, and would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    return 0


if __name__ == "__main__":
    main()
