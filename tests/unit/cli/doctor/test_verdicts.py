"""What probes saw, as findings: nothing of it does I/O."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bmq.cli.doctor.finding import Finding, Verdict, bytes_text, exit_code
from bmq.cli.doctor.verdicts.access import Listener, access_findings
from bmq.cli.doctor.verdicts.appends import AppendProbe, append_findings, percentile
from bmq.cli.doctor.verdicts.certificates import ListenerCertificate, certificate_findings
from bmq.cli.doctor.verdicts.clock import OtherClock, clock_findings, jump_findings
from bmq.cli.doctor.verdicts.hdfs import (
    blocks_finding,
    datanode_findings,
    hdfs_findings,
    namenode_findings,
    quota_finding,
    space_finding,
)
from bmq.cli.doctor.verdicts.machine import (
    DataDisk,
    Memory,
    OpenFilesLimit,
    data_disk_findings,
    memory_findings,
    open_files_finding,
)
from bmq.cli.doctor.verdicts.names import ResolvedName, name_findings
from bmq.cli.doctor.verdicts.nodes import SeenNode, node_findings, version_finding
from bmq.cli.doctor.verdicts.ports import ListenAddress, PortState, port_findings
from bmq.cli.doctor.verdicts.zookeeper import ZooKeeperServer, zookeeper_findings
from bmq.hdfs.cluster_state import HdfsQuota, HdfsSpace, LiveDataNode, NameNodeReport
from bmq.hdfs.config import Address

pytestmark = pytest.mark.unit

OK, WARNING, ERROR, NONE = Verdict.OK, Verdict.WARNING, Verdict.ERROR, Verdict.NOT_APPLICABLE
GIB = 1 << 30
ADDRESS = Address("n1", 8020)


def verdicts(findings: Sequence[Finding]) -> list[Verdict]:
    assert all(finding.to_do for finding in findings if finding.verdict in (WARNING, ERROR)), "each says what to do"
    return [finding.verdict for finding in findings]


@pytest.mark.parametrize(("found", "code"), [([OK, NONE], 0), ([OK, WARNING], 1), ([WARNING, ERROR, OK], 2), ([], 0)])
def test_the_exit_code_is_that_of_the_worst(found: list[Verdict], code: int) -> None:
    assert exit_code(Finding("c", verdict, "s", "t") for verdict in found) == code


def test_bytes_are_shown_in_their_unit() -> None:
    assert [bytes_text(each) for each in (0, 1023, 1536, 5 * GIB)] == ["0 B", "1023 B", "1.5 KiB", "5 GiB"]


@pytest.mark.parametrize(
    ("earliest_ms", "latest_ms", "verdict"),
    [
        (-900, 1_100, OK),
        (999, 1_500, OK),
        (1_000, 2_000, WARNING),
        (3_600_000, 3_602_000, ERROR),
        (-40_000, -38_000, ERROR),
    ],
)
def test_a_clock_is_off_only_as_far_as_it_must_be(earliest_ms: float, latest_ms: float, verdict: Verdict) -> None:
    findings = clock_findings([OtherClock("node 2", earliest_ms, latest_ms)])
    assert verdicts(findings) == [verdict]
    if earliest_ms == 3_600_000:
        assert findings[0].seen == "the clock of node 2 is 3600.0 s ahead of ours"
    if earliest_ms == -40_000:
        assert findings[0].seen == "the clock of node 2 is 38.0 s behind ours"


def test_clocks_without_another_one_and_with_several() -> None:
    assert verdicts(clock_findings([])) == [NONE]
    others = [OtherClock("node 2", 0, 10), OtherClock("HDFS", 5_000, 5_010)]
    assert [finding.seen for finding in clock_findings(others)] == ["the clock of HDFS is 5.0 s ahead of ours"]


def test_jumps() -> None:
    assert verdicts(jump_findings([5.0, 5.2], is_synchronized=True)) == [OK]
    assert verdicts(jump_findings([5.0, 5.2], is_synchronized=None)) == [OK]
    assert verdicts(jump_findings([5.0], is_synchronized=False)) == [WARNING]
    assert verdicts(jump_findings([0.0, 150.0, 0.0], is_synchronized=True)) == [WARNING]
    assert jump_findings([0.0, -2_500.0], is_synchronized=True)[0].seen.startswith("the time of day jumped by 2.50 s")


def test_names() -> None:
    fine = ResolvedName("n1", "a NameNode", ("10.0.0.3",))
    assert verdicts(name_findings([fine])) == [OK]
    missing = ResolvedName("n9", "a NameNode", reason="Name or service not known")
    (finding,) = name_findings([fine, missing])
    assert finding.seen == "a NameNode is n9, which does not resolve here: Name or service not known"
    loopback = ResolvedName("b1", "the address internal of this node", ("127.0.1.1",), is_own=True, is_own_address=True)
    assert verdicts(name_findings([loopback])) == [ERROR]
    literal = ResolvedName(
        "127.0.0.1", "the address rest of this node", ("127.0.0.1",), is_own=True, is_own_address=True
    )
    assert verdicts(name_findings([literal])) == [OK]
    foreign = ResolvedName("lb", "the address that clients of X are told", ("10.0.0.9",), is_own=True)
    assert verdicts(name_findings([foreign])) == [WARNING]
    slow = ResolvedName("n1", "a NameNode", ("10.0.0.3",), took_s=1.5)
    assert verdicts(name_findings([slow])) == [WARNING]


def test_ports() -> None:
    free, ours = ListenAddress("rest", "h:1", PortState.FREE), ListenAddress("listen", "h:2", PortState.OURS, "p")
    assert verdicts(port_findings([free])) == [OK]
    assert verdicts(port_findings([ours])) == [OK]
    assert verdicts(port_findings([free, ours])) == [WARNING]
    taken = ListenAddress("listen", "h:2", PortState.TAKEN, "process 7 (nginx)")
    (finding,) = port_findings([free, taken])
    assert (finding.verdict, finding.seen) == (ERROR, "the port of listen = h:2 is taken by process 7 (nginx)")
    assert verdicts(port_findings([ListenAddress("listen", "x:2", PortState.UNUSABLE, "no such address")])) == [ERROR]


def space(remaining: int = 50, missing: int = 0, under: int = 0) -> HdfsSpace:
    return HdfsSpace(100 * GIB, (100 - remaining) * GIB, remaining * GIB, under, 0, missing)


def test_space_blocks_and_quota_of_hdfs() -> None:
    assert [space_finding(space(remaining)).verdict for remaining in (50, 9, 1)] == [OK, WARNING, ERROR]
    assert space_finding(HdfsSpace(0, 0, 0, 0, 0, 0)).verdict == ERROR, "no DataNode is there"
    assert [blocks_finding(each).verdict for each in (space(), space(under=3), space(missing=1))] == [
        OK,
        WARNING,
        ERROR,
    ]
    assert quota_finding(None, ["it refuses"]).seen == "the quota is unknown: it refuses"
    assert quota_finding(HdfsQuota("/bmq", 5, None, 5, None)).verdict == OK
    assert [quota_finding(HdfsQuota("/bmq", names, 100, 0, None)).verdict for names in (10, 85, 98)] == [
        OK,
        WARNING,
        ERROR,
    ]
    full = quota_finding(HdfsQuota("/bmq", 10, 100, 3 * GIB, 3 * GIB))
    assert full.verdict == ERROR
    assert full.seen == "/bmq uses 3 GiB of the 3 GiB of its quota of space (100 %)"
    assert "-setSpaceQuota" in full.to_do


def test_datanodes() -> None:
    def nodes(*heard_s: int, remaining: int = 5) -> list[LiveDataNode]:
        return [LiveDataNode(f"d{n}", 10 * GIB, remaining * GIB, s * 1000) for n, s in enumerate(heard_s, 1)]

    assert verdicts(datanode_findings(nodes(100, 99, 98), replication=3)) == [OK]
    assert verdicts(datanode_findings(nodes(100, 99), replication=3)) == [ERROR]
    (stale,) = datanode_findings(nodes(100, 99, 60), replication=3)
    assert stale.seen == "no heartbeat for 30 s from d3"
    assert verdicts(datanode_findings(nodes(100, 100, 100, remaining=0), replication=3)) == [WARNING]
    assert verdicts(datanode_findings(None, replication=3)) == [NONE]


def test_namenodes() -> None:
    active = NameNodeReport(ADDRESS, is_active=True, space=space())
    standby = NameNodeReport(Address("n2", 8020))
    dead = NameNodeReport(Address("n2", 8020), trouble="no connection within 1 s")
    assert verdicts(namenode_findings([active, standby])) == [OK]
    assert verdicts(namenode_findings([active, dead])) == [WARNING]
    assert verdicts(namenode_findings([dead])) == [ERROR]
    assert verdicts(namenode_findings([standby, standby])) == [ERROR]
    assert verdicts(namenode_findings([standby, dead])) == [ERROR, ERROR]
    assert verdicts(namenode_findings([NameNodeReport(ADDRESS, answer_s=0.5, is_active=True)])) == [WARNING]
    assert verdicts(hdfs_findings([dead], replication=3)) == [ERROR, NONE, NONE, NONE, NONE, NONE]
    safe = NameNodeReport(ADDRESS, is_active=True, is_in_safe_mode=True, space=space())
    assert [f.check for f in hdfs_findings([safe], replication=3) if f.verdict == ERROR] == ["HDFS safe mode"]


def test_zookeeper() -> None:
    fine, slow = ZooKeeperServer("z1:1", (2.0, 3.0)), ZooKeeperServer("z2:1", (150.0, 160.0, 3.0))
    hung = ZooKeeperServer("z3:1", trouble="z3:1 gives no session within 3 s")
    assert verdicts(zookeeper_findings([fine])) == [OK]
    assert verdicts(zookeeper_findings([fine, slow])) == [WARNING]
    assert verdicts(zookeeper_findings([ZooKeeperServer("z1:1", (1_500.0,))])) == [ERROR]
    assert verdicts(zookeeper_findings([fine, hung])) == [WARNING]
    assert verdicts(zookeeper_findings([hung])) == [ERROR]


def test_open_files_memory_and_disk() -> None:
    limits = (None, 100_000, 8_192, 1_024)
    found = [open_files_finding(OpenFilesLimit(limit, "a server", 10_000)).verdict for limit in limits]
    assert found == [OK, OK, WARNING, ERROR]

    def memory(available: int = 8, swap: int = 0, caches: int = 1) -> list[Verdict]:
        return verdicts(memory_findings(Memory(16 * GIB, available * GIB, GIB, swap * GIB, caches * GIB, True)))

    assert [memory(), memory(available=1), memory(available=0)] == [[OK], [WARNING], [ERROR]]
    assert [memory(caches=5), memory(caches=12), memory(swap=4)] == [[WARNING], [ERROR], [WARNING]]
    assert verdicts(data_disk_findings(None)) == [NONE]

    def disk(free: int = 50, files: int = 50, ms: float = 2.0) -> list[Verdict]:
        return verdicts(data_disk_findings(DataDisk("/d", "", free * GIB, 100 * GIB, files, 100, (1.0, ms))))

    assert [disk(), disk(free=5), disk(free=1), disk(files=1)] == [[OK], [WARNING], [ERROR], [ERROR]]
    assert [disk(ms=150), disk(ms=2_000)] == [[WARNING], [ERROR]]
    assert verdicts(data_disk_findings(DataDisk("/d", "Read-only file system"))) == [ERROR]
    assert verdicts(data_disk_findings(DataDisk("/d", "", 50, 100, 0, 0))) == [OK], "btrfs has no number of files"


def test_nodes_and_their_releases() -> None:
    one, two = SeenNode("node 1", version="0.1.0"), SeenNode("node 2", version="0.2.0")
    assert verdicts(node_findings([], is_running_here=False)) == [NONE]
    assert verdicts(node_findings([one, two], is_running_here=True)) == [OK]
    assert verdicts(node_findings([SeenNode("node 3", "it did not answer within 3 s")], is_running_here=False)) == [
        ERROR
    ]
    assert verdicts(node_findings([SeenNode("node 3", is_ready=False, problems=("a", "b"))], is_running_here=False)) == [
        ERROR, ERROR, ERROR,
    ]  # fmt: skip
    assert version_finding([one, SeenNode("node 9")], "0.1.0").verdict == OK
    mixed = version_finding([one, two], "0.1.0")
    assert (mixed.verdict, mixed.seen) == (WARNING, "the nodes have different releases (0.1.0: node 1; 0.2.0: node 2)")
    assert version_finding([one], "0.3.0").verdict == WARNING
    assert version_finding([SeenNode("node 9")], "0.1.0").verdict == NONE


def test_certificates_and_listeners() -> None:
    days = (100.0, 20.0, 3.0, -2.0)
    found = [certificate_findings([ListenerCertificate("OUTSIDE", each)])[0].verdict for each in days]
    assert found == [OK, WARNING, ERROR, ERROR]
    assert verdicts(certificate_findings([])) == [NONE]
    assert verdicts(certificate_findings([ListenerCertificate("REST", 0.0, "it is no PEM file")])) == [ERROR]

    def listener(has_login: bool, is_encrypted: bool, is_loopback: bool = False) -> list[Verdict]:
        one = Listener("OUTSIDE", "0.0.0.0:9092", "a client", has_login, is_encrypted, is_loopback)
        return verdicts(access_findings([one]))

    assert [listener(True, True), listener(False, False, True)] == [[OK], [OK]]
    assert [listener(False, True), listener(True, False)] == [[WARNING], [WARNING]]


def test_appends() -> None:
    def found(*late_ms: float, nodes: int = 3, trouble: str = "") -> list[Verdict]:
        names = tuple(f"d{number}:9866" for number in range(nodes))
        return verdicts(append_findings(AppendProbe((0.5,) * 297 + late_ms, names, 3, trouble)))

    assert [found(0.5), found(0.5, 180.0), found(1_400.0)] == [[OK], [WARNING], [ERROR]]
    assert found(0.5, nodes=2) == [ERROR]
    assert found(200.0, nodes=2, trouble="no acknowledgement within 5 s") == [ERROR, ERROR, WARNING]
    assert verdicts(append_findings(AppendProbe(skipped="the store is a local directory"))) == [NONE]
    assert verdicts(append_findings(AppendProbe((30.0,) * 300, ("d1",), 1))) == [WARNING]
    assert [percentile([3.0, 1.0, 2.0], share) for share in (0.0, 0.5, 0.99)] == [1.0, 2.0, 3.0]
