"""DataNodes that hung or were unreachable a short while ago. The NameNode keeps naming them for minutes."""

from __future__ import annotations

from asyncio import get_running_loop

from bmq.hdfs.blocks import DataNode


class BadNodes:
    """Remembers nodes, by uuid, for `expiry_s` seconds after their last `add`."""

    def __init__(self, expiry_s: float) -> None:
        self._expiry_s = expiry_s
        self._until_s: dict[str, tuple[float, DataNode]] = {}

    def add(self, node: DataNode) -> None:
        self._forget_old()
        self._until_s[node.uuid] = (get_running_loop().time() + self._expiry_s, node)

    def is_bad(self, node: DataNode) -> bool:
        known = self._until_s.get(node.uuid)
        return known is not None and get_running_loop().time() < known[0]

    def current(self) -> tuple[DataNode, ...]:
        """The nodes, sorted by uuid."""
        self._forget_old()
        return tuple(self._until_s[uuid][1] for uuid in sorted(self._until_s))

    def _forget_old(self) -> None:
        now_s = get_running_loop().time()
        for uuid in [uuid for uuid, (until_s, _) in self._until_s.items() if until_s <= now_s]:
            del self._until_s[uuid]
