"""How many bytes of one kind the process may hold at once, and who waits until there is room again."""

from __future__ import annotations

from collections.abc import Callable


class ByteBudget:
    """Counts; never blocks. Who finds it full stops bringing more and asks to be called when there is room."""

    __slots__ = ("_waiting", "bytes_max", "bytes_used", "overdraft_holder")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes_used = 0
        self.overdraft_holder: object | None = None
        self._waiting: dict[Callable[[], None], None] = {}

    @property
    def is_full(self) -> bool:
        return self.bytes_used >= self.bytes_max

    @property
    def room_bytes(self) -> int:
        return max(0, self.bytes_max - self.bytes_used)

    def take(self, size_bytes: int) -> None:
        self.bytes_used += size_bytes

    def give_back(self, size_bytes: int) -> None:
        """The waiting are called once there is room. Each has to look again: an earlier one may have used it."""
        self.bytes_used -= size_bytes
        if self._waiting and self.bytes_used < self.bytes_max:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def may_overdraw(self, holder: object) -> bool:
        """One holder at a time may go past the limit, to finish what it began: else all could wait for each other."""
        if self.overdraft_holder is None:
            self.overdraft_holder = holder
        return self.overdraft_holder is holder

    def end_overdraft(self, holder: object) -> None:
        if self.overdraft_holder is holder:
            self.overdraft_holder = None
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def on_room(self, wake: Callable[[], None]) -> None:
        """Call `wake` once when there may be room."""
        self._waiting[wake] = None

    def forget(self, wake: Callable[[], None]) -> None:
        self._waiting.pop(wake, None)
