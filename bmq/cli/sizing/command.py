"""`bmq plan`: the size of a cluster for a load."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Final

import typer
from rich.table import Table

from bmq.cli.doctor.finding import bytes_text
from bmq.cli.sizing.plan import GIB, MIB, TIB, Load, Machines, Step, plan
from bmq.cli.terminal import add_row, print_json, print_table

plan_app = typer.Typer()

_UNITS: Final = {"": 1, "K": 1 << 10, "M": MIB, "G": GIB, "T": TIB}
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_TIME: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(h|d|w)", re.IGNORECASE)
_HOURS: Final = {"h": 1, "d": 24, "w": 168}


def size_bytes(text: str) -> int:
    """Bytes of `512`, `1KiB`, `128M`. Raises typer.BadParameter."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no size such as 512, 1KiB or 128M")
    return int(float(match[1]) * _UNITS[match[2].upper()])


def hours(text: str) -> float:
    """Hours of `12h`, `7d`, `2w`. Raises typer.BadParameter."""
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is no time such as 12h, 7d or 2w")
    return float(match[1]) * _HOURS[match[2].lower()]


@plan_app.command("plan")
def plan_command(
    records: Annotated[float, typer.Option("--records", "-r", metavar="N", help="Records produced each second")],
    size: Annotated[
        int, typer.Option("--size", "-s", metavar="SIZE", parser=size_bytes, help="Of a record, as it is sent")
    ],
    retention: Annotated[
        float, typer.Option("--retention", metavar="TIME", parser=hours, help="How long records are kept: 12h, 7d, 2w")
    ],
    partitions: Annotated[int, typer.Option("--partitions", "-p", metavar="N", help="Partitions of all topics")],
    groups: Annotated[
        int, typer.Option("--groups", "-g", metavar="N", help="Consumer groups that read everything")
    ] = 1,
    replication: Annotated[
        int, typer.Option(metavar="N", help="DataNodes that hold each record (hdfs.replication)")
    ] = 3,
    segment: Annotated[
        int, typer.Option("--segment", metavar="SIZE", parser=size_bytes, help="segment.bytes of the topics")
    ] = "128MiB",  # type: ignore[assignment]  # typer parses a default as it parses an argument
    cores: Annotated[int, typer.Option(metavar="N", help="Cores of a machine with nodes")] = 8,
    network: Annotated[float, typer.Option("--network", metavar="GBIT/S", help="Network of a machine")] = 10.0,
    disk: Annotated[
        int, typer.Option("--disk", metavar="SIZE", parser=size_bytes, help="Disks of a DataNode, all together")
    ] = "10TiB",  # type: ignore[assignment]
    disk_rate: Annotated[
        float, typer.Option("--disk-rate", metavar="MB/S", help="Rate at which these disks write")
    ] = 400.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document instead of a table")] = False,
) -> None:
    """Size a cluster for a load: processes, machines, DataNodes, memory, disk, network. Shows its arithmetic."""
    load = Load(
        records_s=records,
        record_bytes=size,
        retention_hours=retention,
        partitions=partitions,
        groups=groups,
        replication=replication,
        segment_bytes=segment,
    )
    machines = Machines(cores=cores, network_bits_s=network * 1e9, disk_bytes=disk, disk_bytes_s=disk_rate * 1e6)
    try:
        steps = plan(load, machines)
    except ValueError as wrong:
        raise typer.BadParameter(str(wrong)) from None
    if as_json:
        print_json({"steps": [step.to_json() for step in steps]})
        return
    table = Table("", "", "value", "because", box=None, pad_edge=False)
    part = ""
    for step in steps:
        add_row(table, "" if step.part == part else step.part, step.name, value_text(step), step.how)
        part = step.part
    print_table(table)
    sys.stdout.write("\nMeasured figures in it:\n")
    for source in dict.fromkeys(source for step in steps for source in step.source.split("; ") if source):
        sys.stdout.write(f"- {source}\n")
    sys.stdout.write("They are of one machine with two cores: measure your own load before you buy.\n")


def value_text(step: Step) -> str:
    match step.unit:
        case "B":
            return bytes_text(step.value)
        case "B/s":
            return f"{bytes_text(step.value)}/s"
        case "":
            return f"{step.value:,.0f}"
    return f"{step.value:,.3g} {step.unit}"
