"""What Prometheus is told of an agent. All numbers are read when it scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bmq.databus.channel_updates import ChannelUpdates
from bmq.databus.doors.grpc_calls import GrpcCalls
from bmq.databus.doors.socket_door import SocketDoor
from bmq.databus.intake import Intake
from bmq.databus.lanes.lane_set import LaneSet
from bmq.databus.spool.spool import SpoolBudget


class AgentMetrics(Collector):
    """Metrics of the intake, the lanes, the spool, the socket and the gRPC door. `updates` None: the agent does not ask for channels."""

    def __init__(
        self,
        intake: Intake,
        lanes: LaneSet,
        budget: SpoolBudget,
        door: SocketDoor | None,
        updates: Callable[[], ChannelUpdates | None],
        calls: GrpcCalls | None = None,
    ) -> None:
        self._intake, self._lanes, self._budget, self._door, self._updates = intake, lanes, budget, door, updates
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        yield from self._of_channels()
        yield from self._of_lanes()
        yield from self._of_spools()
        yield from self._of_agent()

    def _of_channels(self) -> Iterator[Metric]:
        accepted = _counter("accepted_records", "Records that were taken into the spool", "channel")
        taken_bytes = _counter("accepted_bytes", "Bytes of keys, values and headers of accepted records", "channel")
        sampled = _counter("sampled_out_records", "Records that the channel's sampling left out", "channel")
        dropped = _counter("dropped_records", "Records dropped because the spool was full", "channel", "which")
        refused = _counter(
            "refused_records", "Records that were not taken, by the code of the answer", "channel", "code"
        )
        for name, counts in list(self._intake.counts.items()):
            accepted.add_metric([name], counts.accepted_records)
            taken_bytes.add_metric([name], counts.accepted_bytes)
            sampled.add_metric([name], counts.sampled_out)
            dropped.add_metric([name, "newest"], counts.dropped_newest)
            dropped.add_metric([name, "oldest"], counts.dropped_oldest)
            for code, count in list(counts.refused.items()):
                refused.add_metric([name, code.name], count)
        refused.add_metric(["", "UNKNOWN_CHANNEL"], self._intake.unknown_channel)
        produced = _counter("produced_records", "Records whose transaction is committed", "channel")
        counts_of: dict[str, int] = {}
        for key, lane in list(self._lanes.lanes.items()):
            for each in (lane.produced, self._lanes.parkings[key].produced()):
                for name, count in list(each.items()):
                    counts_of[name] = counts_of.get(name, 0) + count
        for name, count in counts_of.items():
            produced.add_metric([name], count)
        yield from (accepted, taken_bytes, sampled, dropped, refused, produced)

    def _of_lanes(self) -> Iterator[Metric]:
        producing = _gauge("lane_producing", "1: the lane produces; 0: it waits for the cluster", "lane")
        transactions = _counter("transactions", "Committed transactions", "lane")
        for lane in self._lanes.lanes.values():
            producing.add_metric([lane.name], 0 if lane.trouble else 1)
            transactions.add_metric([lane.name], lane.committed_transactions)
        parked = _gauge("parked_topics", "Topics whose records wait because the cluster takes none", "lane")
        set_aside = _counter("cluster_refused_records", "Records that the cluster takes in no company", "lane")
        dropped = _counter("cluster_refused_dropped_records", "Of those, how many are kept no longer", "lane")
        for key, parking in self._lanes.parkings.items():
            dropped.add_metric([key.name], sum(one.dropped for one in list(parking.refused_records.values())))
            parked.add_metric([key.name], len(parking.lanes))
            set_aside.add_metric([key.name], sum(one.count for one in list(parking.refused_records.values())))
        yield from (producing, transactions, parked, set_aside, dropped)

    def _of_spools(self) -> Iterator[Metric]:
        yield _gauge_of("spool_bytes", "Bytes of all files of the spool", self._budget.used)
        yield _gauge_of("spool_limit_bytes", "Limit of these bytes", self._budget.bytes_max)
        spools = list(self._lanes.spools())
        cut = _counter("spool_cut_bytes", "Bytes of unfinished writes that starts dropped")
        cut.add_metric([], sum(spool.recovery.cut_bytes for spool in spools))
        set_aside = _counter("spool_set_aside_files", "Damaged and foreign files that were set aside")
        set_aside.add_metric([], sum(spool.recovery.set_aside for spool in spools))
        unreadable = _counter("spool_unreadable_records", "Records that could not be read and were left out")
        unreadable.add_metric([], sum(spool.recovery.unreadable for spool in spools))
        yield from (cut, set_aside, unreadable)

    def _of_agent(self) -> Iterator[Metric]:
        updates = self._updates()
        yield _gauge_of("channels_version", "Version of the channels in use", self._intake.channels.version)
        if updates is not None:
            yield _gauge_of("channels_up_to_date", "1: the cluster tells of changes", 0 if updates.trouble else 1)
        if self._door is not None:
            yield _gauge_of("connections", "Connections of the socket", len(self._door.connections))
            yield _gauge_of("held_bytes", "Bytes of frames that are not whole", self._door.held_bytes)
            bad = _counter("bad_frames", "Connections that were closed for a frame that was wrong or late")
            bad.add_metric([], self._door.bad_frames)
            refused = _counter("refused_connections", "Connections past the limit")
            refused.add_metric([], self._door.refused_connections)
            yield from (bad, refused)
        if self._calls is not None:
            yield _gauge_of("grpc_open_calls", "Open calls of the gRPC door", self._calls.open_calls)
            full = _counter("grpc_refused_calls", "Calls past the limit")
            full.add_metric([], self._calls.refused_calls)
            late = _counter("grpc_late_calls", "Calls that were ended because the client did not go on")
            late.add_metric([], self._calls.ended_late)
            yield from (full, late)


def _counter(name: str, text: str, *labels: str) -> CounterMetricFamily:
    return CounterMetricFamily(f"bmq_databus_{name}", text, labels=labels)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"bmq_databus_{name}", text, labels=labels)


def _gauge_of(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"bmq_databus_{name}", text, value=value)
