"""Whether the nodes of the cluster answer, are ready, and are of one release. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, error, not_applicable, ok, warning
from bmq.dataclass import dataclass

NODES: Final = "nodes"
VERSIONS: Final = "versions"
_PROBLEMS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class SeenNode:
    """One node at its REST address. `trouble`: why it tells nothing, a sentence. `version`: None if it does not tell.

    `reasons`: what its health says is wrong, and what to do, sentences.
    """

    name: str
    trouble: str = ""
    is_ready: bool = True
    problems: tuple[str, ...] = ()
    reasons: tuple[tuple[str, str], ...] = ()
    version: str | None = None


def node_findings(nodes: Sequence[SeenNode], *, is_running_here: bool) -> list[Finding]:
    """`is_running_here`: a server of bmq has one of the ports of the settings."""
    if not nodes:
        return [not_applicable(NODES, "no server runs here, so no node could be asked; see --rest")]
    found = []
    for node in nodes:
        if node.trouble:
            here = " (its process runs)" if is_running_here and len(nodes) == 1 else ""
            found.append(
                error(
                    NODES,
                    f"{node.name} does not answer{here}: {node.trouble}",
                    "look at its log; if it hangs, take a `bmq support-bundle`, end it and start it again",
                )
            )
            continue
        if not node.is_ready:
            found.append(
                error(NODES, f"{node.name} is not ready", "look at its log: it waits for its store or for ZooKeeper")
            )
        found += [
            error(NODES, f"{node.name} says: {problem}", "see `A partition that is offline` in docs/OPERATIONS.md")
            for problem in node.problems[:_PROBLEMS_MAX]
        ]
        found += [
            error(
                NODES,
                f"{node.name} says: {what.removesuffix('.')}",
                what_to_do[:1].lower() + what_to_do[1:].removesuffix("."),
            )
            for what, what_to_do in node.reasons[:_PROBLEMS_MAX]
        ]
    return found or [ok(NODES, f"{_count(len(nodes))} answer and are ready")]


def version_finding(nodes: Sequence[SeenNode], own: str) -> Finding:
    """`own`: the release that this command is of."""
    by_version: dict[str, list[str]] = {}
    for node in nodes:
        if node.version is not None:
            by_version.setdefault(node.version, []).append(node.name)
    if not by_version:
        return not_applicable(VERSIONS, f"no node tells its release; this command is of {own}")
    shown = "; ".join(f"{version}: {', '.join(names)}" for version, names in sorted(by_version.items()))
    if len(by_version) > 1:
        return warning(
            VERSIONS,
            f"the nodes have different releases ({shown})",
            "finish the upgrade node by node, as docs/OPERATIONS.md says",
        )
    if own not in by_version:
        return warning(
            VERSIONS,
            f"this command is of {own}, and the nodes are of {shown}",
            "install the release of the nodes here, or restart the nodes that were upgraded",
        )
    return ok(VERSIONS, f"{_count(len(nodes))} and this command are of {own}")


def _count(number: int) -> str:
    return "one node" if number == 1 else f"{number} nodes"
