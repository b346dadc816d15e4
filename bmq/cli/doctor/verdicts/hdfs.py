"""Whether HDFS can take and keep what a cluster writes. Decisions only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bmq.cli.doctor.finding import Finding, bytes_text, error, not_applicable, ok, percent, warning
from bmq.hdfs.cluster_state import HdfsQuota, HdfsSpace, LiveDataNode, NameNodeReport

NAMENODES: Final = "HDFS NameNodes"
SAFE_MODE: Final = "HDFS safe mode"
SPACE: Final = "HDFS space"
QUOTA: Final = "HDFS quota"
BLOCKS: Final = "HDFS blocks"
DATANODES: Final = "HDFS DataNodes"
ALL: Final = (NAMENODES, SAFE_MODE, SPACE, QUOTA, BLOCKS, DATANODES)

ANSWER_WARNING_S: Final = 0.2
REMAINING_WARNING: Final = 0.10
REMAINING_ERROR: Final = 0.02
QUOTA_WARNING: Final = 0.80
QUOTA_ERROR: Final = 0.97
SILENT_MS: Final = 30_000
"""A DataNode sends a heartbeat every 3 s; the NameNode calls it stale after this time."""
_NAMED_MAX: Final = 5


def without_hdfs() -> list[Finding]:
    return [not_applicable(check, "the store is a local directory") for check in ALL]


def hdfs_findings(reports: Sequence[NameNodeReport], *, replication: int) -> list[Finding]:
    """`replication`: the setting hdfs.replication."""
    found = namenode_findings(reports)
    active = next((report for report in reports if report.is_active), None)
    if active is None or active.space is None:
        return [*found, *(not_applicable(check, "no active NameNode answers") for check in ALL[1:])]
    return [
        *found,
        safe_mode_finding(active),
        space_finding(active.space),
        quota_finding(active.quota, active.refusals),
        blocks_finding(active.space),
        *datanode_findings(active.datanodes, replication=replication),
    ]


def namenode_findings(reports: Sequence[NameNodeReport]) -> list[Finding]:
    silent = [report for report in reports if report.trouble]
    active = [report for report in reports if report.is_active]
    found = []
    for report in silent:
        make = warning if active else error
        found.append(
            make(
                NAMENODES,
                f"the NameNode {report.address} cannot be asked: {report.trouble}",
                "start it, or look at its log and its garbage collection; check the setting `store` and the network",
            )
        )
    if not active and len(silent) < len(reports):
        found.append(
            error(
                NAMENODES,
                "no NameNode is active; those that answer are standbys",
                "`hdfs haadmin -getAllServiceState`; let ZKFC or `hdfs haadmin -failover` make one active",
            )
        )
    slow = [report for report in active if report.answer_s >= ANSWER_WARNING_S]
    found += [
        warning(
            NAMENODES,
            f"the NameNode {report.address} took {report.answer_s:.2f} s for one answer",
            "look at its garbage collection, its handlers (dfs.namenode.handler.count) and the load of its clients",
        )
        for report in slow
    ]
    if found:
        return found
    return [ok(NAMENODES, f"{active[0].address} is active, {len(reports)} of {len(reports)} answer")]


def safe_mode_finding(report: NameNodeReport) -> Finding:
    if not report.is_in_safe_mode:
        return ok(SAFE_MODE, "it is off")
    return error(
        SAFE_MODE,
        f"the NameNode {report.address} is in safe mode and takes no changes",
        "wait until its DataNodes have reported their blocks (`hdfs dfsadmin -safemode get`, `hdfs fsck /`), make room "
        "for its own disk, and only then `hdfs dfsadmin -safemode leave`",
    )


def space_finding(space: HdfsSpace) -> Finding:
    seen = (
        f"{bytes_text(space.remaining_bytes)} of {bytes_text(space.capacity_bytes)} are free "
        f"({percent(space.remaining_bytes, space.capacity_bytes)})"
    )
    to_do = "add DataNodes or disks, shorten retention (retention.ms, retention.bytes), or delete other files"
    share = space.remaining_bytes / space.capacity_bytes if space.capacity_bytes else 0.0
    if share < REMAINING_ERROR:
        return error(SPACE, seen, to_do)
    return warning(SPACE, seen, to_do) if share < REMAINING_WARNING else ok(SPACE, seen)


def quota_finding(quota: HdfsQuota | None, refusals: Sequence[str] = ()) -> Finding:
    if quota is None:
        why = "; ".join(refusals) or "the NameNode does not tell"
        return not_applicable(QUOTA, f"the quota is unknown: {why}")
    used = {
        "names": (quota.names, quota.names_max, str(quota.names), str(quota.names_max)),
        "space": (
            quota.space_bytes,
            quota.space_bytes_max,
            bytes_text(quota.space_bytes),
            bytes_text(quota.space_bytes_max or 0),
        ),
    }
    bounded = {what: each for what, each in used.items() if each[1] is not None}
    if not bounded:
        return ok(QUOTA, f"{quota.path} has no quota of its own")
    share, what = max((each[0] / each[1] if each[1] else 1.0, what) for what, each in bounded.items())
    _, _, have, most = bounded[what]
    seen = f"{quota.path} uses {have} of the {most} of its quota of {what} ({share:.0%})".replace("%)", " %)")
    option = "-setQuota" if what == "names" else "-setSpaceQuota"
    to_do = f"raise it (`hdfs dfsadmin {option} N {quota.path}`), or shorten retention"
    if share >= QUOTA_ERROR:
        return error(QUOTA, seen, to_do)
    return warning(QUOTA, seen, to_do) if share >= QUOTA_WARNING else ok(QUOTA, seen)


def blocks_finding(space: HdfsSpace) -> Finding:
    if space.missing_blocks or space.corrupt_blocks:
        return error(
            BLOCKS,
            f"{space.missing_blocks} blocks of HDFS are missing, {space.corrupt_blocks} have a corrupt replica",
            "`hdfs fsck / -list-corruptfileblocks` names the files; start the DataNodes that have them; then "
            "`bmq verify`",
        )
    if space.under_replicated_blocks:
        return warning(
            BLOCKS,
            f"{space.under_replicated_blocks} blocks of HDFS have too few replicas",
            "wait while HDFS copies them; if the number stays, a DataNode is missing or replication is above their "
            "number",
        )
    return ok(BLOCKS, "every block has its replicas")


def datanode_findings(datanodes: Sequence[LiveDataNode] | None, *, replication: int) -> list[Finding]:
    if datanodes is None:
        return [
            not_applicable(
                DATANODES, "the NameNode lists DataNodes for superusers of HDFS alone; see the check of appends"
            )
        ]
    found = []
    if len(datanodes) < replication:
        found.append(
            error(
                DATANODES,
                f"{len(datanodes)} DataNodes are live, and hdfs.replication is {replication}",
                "start the missing DataNodes, or lower hdfs.replication (and min.insync.replicas)",
            )
        )
    newest_ms = max((each.heard_ms for each in datanodes), default=0)
    silent = [each.name for each in datanodes if newest_ms - each.heard_ms >= SILENT_MS]
    if silent:
        found.append(
            warning(
                DATANODES,
                f"no heartbeat for {SILENT_MS // 1000} s from {_named(silent)}",
                "look at these DataNodes: they hang, or are cut off",
            )
        )
    full = [
        each.name
        for each in datanodes
        if each.capacity_bytes and each.remaining_bytes / each.capacity_bytes < REMAINING_ERROR
    ]
    if full:
        found.append(
            warning(
                DATANODES,
                f"less than {REMAINING_ERROR:.0%} is free on {_named(full)}".replace("%", " %"),
                "`hdfs balancer`, or give them more space",
            )
        )
    return found or [ok(DATANODES, f"{len(datanodes)} are live, hdfs.replication is {replication}")]


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMED_MAX])
    return shown if len(names) <= _NAMED_MAX else f"{shown} and {len(names) - _NAMED_MAX} more"
