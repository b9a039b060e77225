"""A fleet's own figures: what its GPUs did under load, by which later measurements are judged in place of the catalogue's figures."""

import json
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError

from provision.errors import FactsInvalidError
from provision.paths import read_bounded
from provision.strict import StrictModel
from provision.structs import replace
from provision.verify.checks import CHECKS
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.perf import FleetFacts, PerfDeviceFacts, PerfFacts, Rate
from provision.verify.finding import Report

_MAX_BYTES: Final = 16 * 1024 * 1024
_LOADED: Final = frozenset(check.id for check in CHECKS if check.tier == "perf")
_HINT: Final = "let `gpuprov verify HOST --tier perf --record FILE` write a new file"


class HostFigures(StrictModel):
    """What the slowest GPU of a host did; None where it was not measured."""

    gpu: str
    count: int
    measured_at: str
    tensor_tflops: Rate | None = None
    settled_tflops: Rate | None = None
    memory_gb_s: Rate | None = None
    copies_gb_s: Rate | None = None
    all_reduce_gb_s: Rate | None = None


class FleetFigures(StrictModel):
    """The figures of a fleet: host → its latest."""

    form: Literal["gpuprov-figures/1"] = Field("gpuprov-figures/1", alias="schema")
    hosts: dict[str, HostFigures] = Field(default_factory=dict)

    def of(self, gpu: str) -> FleetFacts | None:
        """The medians of the hosts with this GPU; None where there is none."""
        hosts = [host for host in self.hosts.values() if host.gpu == gpu]
        if not hosts:
            return None

        def median(figure: Callable[[HostFigures], float | None]) -> float | None:
            figures = [value for host in hosts if (value := figure(host)) is not None]
            return statistics.median(figures) if figures else None

        sums = {
            count: value
            for count in sorted({host.count for host in hosts})
            if (value := median(lambda host, count=count: host.all_reduce_gb_s if host.count == count else None)) is not None  # type: ignore[misc]
        }
        return FleetFacts(
            gpu=gpu,
            hosts=len(hosts),
            tensor_tflops=median(lambda host: host.tensor_tflops),
            settled_tflops=median(lambda host: host.settled_tflops),
            memory_gb_s=median(lambda host: host.memory_gb_s),
            copies_gb_s=median(lambda host: host.copies_gb_s),
            all_reduce_gb_s=sums,
        )

    def dump(self) -> str:
        """The content of the file."""
        return json.dumps(self.model_dump(mode="json", by_alias=True, exclude_none=True), indent=1, sort_keys=True) + "\n"


def read(path: Path) -> FleetFigures:
    """The figures that a file holds; none where there is no file yet.

    Raises:
        FactsInvalidError: the file cannot be read, or holds something else.
    """
    try:
        return FleetFigures.model_validate_json(read_bounded(path, _MAX_BYTES))
    except FileNotFoundError:
        return FleetFigures(schema="gpuprov-figures/1")
    except OSError as error:
        msg = f"cannot read {path}: {error.strerror}"
        raise FactsInvalidError(msg, hint=_HINT) from error
    except (ValidationError, ValueError) as error:
        msg = f"{path} holds no figures of version gpuprov-figures/1"
        raise FactsInvalidError(msg, hint=_HINT) from error


def judged_by(facts: Facts, record: FleetFigures | None, gpu: str) -> Facts:
    """The facts with the fleet's figures of this GPU. A host has no say in them: what it sent under that name is dropped."""
    raw = {name: answer for name, answer in facts.raw.items() if name != FleetFacts.name}
    fleet = record.of(gpu) if record else None
    if fleet:
        raw[FleetFacts.name] = {"value": fleet.model_dump(mode="json")}
    return replace(facts, raw=raw)


def updated(record: FleetFigures, measured: Iterable[tuple[Report, Facts, str]]) -> tuple[FleetFigures, tuple[str, ...]]:
    """The record with new measurements, from the report, the facts and the GPU model of each host; and the hosts that were left out.

    A host is left out where a check of the load failed, or something else used a GPU: its figures are not those of a healthy host.
    """
    hosts, left_out = dict(record.hosts), []
    for report, facts, gpu in measured:
        figures = _figures(facts, gpu)
        if figures and not any(finding.outcome == "fail" for finding in report.findings if finding.check in _LOADED):
            hosts[report.host] = figures
        else:
            left_out.append(report.host)
    return record.model_copy(update={"hosts": hosts}), tuple(left_out)


def _figures(facts: Facts, gpu: str) -> HostFigures | None:
    try:
        perf = facts.read(PerfFacts)
    except NotObservedError:
        return None
    devices = perf.devices
    if any(device.others.users for device in devices):
        return None

    def least(figure: Callable[[PerfDeviceFacts], float | None]) -> float | None:
        figures = [figure(device) for device in devices]
        return None if None in figures else min(value for value in figures if value is not None)

    return HostFigures(
        gpu=gpu,
        count=len(devices),
        measured_at=facts.gathered_at,
        tensor_tflops=least(lambda device: device.gemm.tflops),
        settled_tflops=least(lambda device: device.gemm.sustained_tflops),
        memory_gb_s=least(lambda device: device.memory.gb_s),
        copies_gb_s=least(lambda device: device.copies.slower_gb_s),
        all_reduce_gb_s=perf.all_reduce.bus_gb_s if perf.all_reduce.right else None,
    )
