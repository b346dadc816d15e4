"""One secured bmq node beside one Apache Kafka node with the same listeners, users, ACLs and quotas.

Writes bench/results/security.json (machine, versions, every sample and the criteria) and prints a table. Exit code 0 says
that it ran; whether a criterion holds is in the file and in the table.
"""

from __future__ import annotations

import os
import resource
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from bench.cluster.sides import COMBINED
from bench.cluster.stage import Stage
from bench.core.client import Client as FrameClient
from bench.core.client import pinned_to
from bench.criteria import BMQ
from bench.findings import Findings, say
from bench.loads.client import Client
from bench.measure import versions
from bench.measured_parts import measured_parts
from bench.queues import plain
from bench.runner import bench_of, main
from bench.security import criteria, tuning
from bench.security import plan as plan_module
from bench.security.criteria import (
    ACLS,
    CLUSTER_QUOTAS,
    FLOOD,
    LOGINS,
    OLD,
    QUOTA_BYTES_PER_S,
    QUOTAS,
    STRANGERS,
    TLS,
)
from bench.security.criteria import PLAIN as PLAIN_PART
from bench.security.loads import (
    Tls,
    add_acls,
    beside_strangers,
    make_topic,
    rates_under_quota,
    set_quota,
    small_requests,
)
from bench.security.logins import handshakes_per_s, logins_per_s
from bench.security.plan import Plan
from bench.security.sides import AUTHORIZER, MAKERS, PLAIN, SASL, SSL, Certificates, Secured, add_user, bootstrap
from bmq.metadata.broker_configs import QUOTA_SCOPE
from testing.processes import REPOSITORY, kill_everything
from testing.revisions import checked_out

DATA: Final = REPOSITORY / ".cache" / "bench-security"
WITH_ACLS: Final = {"authorizer.class.name": AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
FILES: Final = 20_000
BEFORE_SECURITY: Final = "84cd95e7cac7789deb7af616d3b4f764d70d1afc"


class Measuring:
    """`certificates`: of all nodes."""

    def __init__(self, plan: Plan, findings: Findings) -> None:
        self.plan, self.findings = plan, findings
        self.certificates = Certificates(DATA / "certificates")
        self.server_core, self.client_core = sorted(os.sched_getaffinity(0))[:2]
        self.client = Client(DATA / "client")
        self.frames = FrameClient(DATA / "frames", self.client_core)

    @contextmanager
    def node(
        self, name: str, more: Mapping[str, str] | None = None, *, is_pinned: bool = False, directory_name: str = ""
    ) -> Iterator[Secured]:
        """On a new directory, gone afterwards. `is_pinned`: on one processor, and the clients on the other."""
        directory = DATA / (directory_name or name)
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        side = MAKERS[name](directory / "node", self.certificates, more or {})
        try:
            with pinned_to([self.server_core] if is_pinned else sorted(os.sched_getaffinity(0))):
                side.server.start()
            yield side
        finally:
            side.server.close()
            shutil.rmtree(directory, ignore_errors=True)

    def pairs(self, part: str, run: Callable[[Secured, dict[str, Any]], None], *, is_pinned: bool = False) -> None:
        """Both sides in turn; who comes first changes."""
        found = self.findings.pairs(part, self.plan.pairs)
        for number in range(self.plan.pairs):
            pair: dict[str, Any] = {"order": list(self.plan.sides[:: 1 if number % 2 == 0 else -1])}
            found.append(pair)
            for name in pair["order"]:
                say(f"  pair {number + 1} of {self.plan.pairs}: {name}")
                with (
                    self.findings.attempt([part], f"pair {number + 1}: {name}"),
                    self.node(name, is_pinned=is_pinned) as side,
                ):
                    run(side, pair.setdefault(name, {}))

    def logins(self, side: Secured, raw: dict[str, Any]) -> None:
        add_user(side)
        port, seconds = side.ports[SSL], self.plan.login_s
        handshakes_per_s(port, self.certificates.authority, seconds / 2, self.client_core)  # a JVM compiles it
        raw["handshakes_per_s"] = handshakes_per_s(port, self.certificates.authority, seconds, self.client_core)
        logins_per_s(side.ports[SASL], seconds / 2, self.client_core)
        raw["logins_per_s"] = logins_per_s(side.ports[SASL], seconds, self.client_core)

    def acls(self) -> None:
        """bmq alone: one node with ACLs and one without an authorizer, under short loads in turn, as the machine's pace changes."""
        plan = self.plan
        done = self.findings.rounds(ACLS, BMQ, plan.acl_rounds)
        with (
            self.findings.attempt([ACLS], BMQ),
            self.node(BMQ, is_pinned=True) as without,
            self.node(BMQ, WITH_ACLS, is_pinned=True, directory_name="bmq-with-acls") as having,
        ):
            sides = {"without": without, "with": having}
            for side in sides.values():
                make_topic(bootstrap(side, PLAIN), "small")
            add_acls(having, plan.acls, "small")
            for side in sides.values():
                small_requests(side, self.frames, "small", 0, plan.warm_s)
            for number in range(plan.acl_rounds):
                kinds = list(sides)[:: 1 if number % 2 == 0 else -1]
                found = {
                    kind: small_requests(sides[kind], self.frames, "small", plan.acl_warm_s, plan.acl_s)
                    for kind in kinds
                }
                done(found)

    def on_both(self, run: Callable[[str], None]) -> None:
        for name in self.plan.sides:
            run(name)

    def quotas(self, name: str) -> None:
        done = self.findings.rounds(QUOTAS, name, self.plan.quota_rounds)
        for number in range(self.plan.quota_rounds):
            with self.findings.attempt([QUOTAS], f"{name}, round {number + 1}"), self.node(name) as side:
                done(self._under_quota(bootstrap(side, PLAIN), [side.server.pid]))

    def cluster_quotas(self) -> None:
        """bmq alone: each client writes through three proxies, which share its quota."""
        done = self.findings.rounds(CLUSTER_QUOTAS, BMQ, self.plan.quota_rounds)
        stage = Stage(DATA / "cluster")
        try:
            stage.up()
            for number in range(self.plan.quota_rounds):
                with (
                    self.findings.attempt([CLUSTER_QUOTAS], f"round {number + 1}"),
                    stage.bmq(COMBINED, kafka={QUOTA_SCOPE: "cluster"}) as side,
                ):
                    done(self._under_quota(side.bootstrap, list(side.pids)))
        finally:
            stage.down()

    def _under_quota(self, address: str, pids: list[int]) -> dict[str, Any]:
        make_topic(address, "quota")
        set_quota(address, QUOTA_BYTES_PER_S)
        return {"bytes_per_s": rates_under_quota(address, pids, self.client, self.plan)}

    def strangers(self, name: str) -> None:
        self._strangers(STRANGERS, name, self.plan.strangers_rounds, self.plan.strangers_returns_per_s)

    def flood(self, name: str) -> None:
        self._strangers(FLOOD, name, self.plan.flood_rounds, None)

    def _strangers(self, part: str, name: str, rounds: int, returns_per_s: float | None) -> None:
        done = self.findings.rounds(part, name, rounds)
        for number in range(rounds):
            with self.findings.attempt([part], f"{name}, round {number + 1}"), self.node(name) as side:
                make_topic(bootstrap(side, PLAIN), "small")
                done(beside_strangers(side, self.frames, "small", self.plan, returns_per_s))

    def plain(self) -> None:
        """bmq beside itself before it had any security, both on one processor."""
        found = self.findings.pairs(PLAIN_PART, self.plan.plain_pairs)
        with self.findings.attempt([PLAIN_PART], BMQ), checked_out(BEFORE_SECURITY) as tree:
            trees = {BMQ: REPOSITORY, OLD: tree}
            loads = (*plain.LOADS, plain.SMALL)
            plain.measure(trees, DATA / "plain", self.frames, self.server_core, self.plan, found, loads)


def measure(plan: Plan, findings: Findings) -> dict[str, float]:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(FILES, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),) * 2)
    try:
        measuring = Measuring(plan, findings)
        tls = Tls(measuring.client, measuring.certificates, plan)
        runs: Mapping[str, Callable[[], Any]] = {
            TLS: lambda: measuring.pairs(TLS, tls.run),
            LOGINS: lambda: measuring.pairs(LOGINS, measuring.logins, is_pinned=True),
            ACLS: measuring.acls,
            CLUSTER_QUOTAS: measuring.cluster_quotas,
            QUOTAS: lambda: measuring.on_both(measuring.quotas),
            STRANGERS: lambda: measuring.on_both(measuring.strangers),
            FLOOD: lambda: measuring.on_both(measuring.flood),
            PLAIN_PART: measuring.plain,
        }
        return measured_parts(plan, findings, runs)
    finally:
        kill_everything()
        shutil.rmtree(DATA, ignore_errors=True)


BENCH: Final = bench_of("security", __doc__, (plan_module, criteria, tuning), measure, versions, DATA)

if __name__ == "__main__":
    main(BENCH)
