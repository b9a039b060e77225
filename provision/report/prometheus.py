"""The report for Prometheus: its text format, as node_exporter's textfile collector reads it.

A run that never happened leaves an old file: alert on the age of `gpuprov_observed_timestamp_seconds` too.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from provision.report.base import inert, observed_at
from provision.verify.finding import OUTCOMES, Report

_HELP: Final = {
    "gpuprov_check": "The outcome of a check as a label; the value is always 1.",
    "gpuprov_checks": "How many checks have an outcome.",
    "gpuprov_exit_code": "The verdict: 0 passed, 1 a check failed, 3 something is unknown.",
    "gpuprov_observed_timestamp_seconds": "When the host was observed, by its own clock.",
    "gpuprov_elapsed_seconds": "From asking the host to its answer.",
}


def render(*reports: Report, strict: bool = False) -> str:
    """All metrics of all hosts; of a host that was verified twice the last report counts."""
    # One value for each series, whatever the hosts are called: a repeated series makes the whole file invalid.
    series: dict[str, dict[str, str]] = {name: {} for name in _HELP}
    for report in reports:
        for name, labels, value in _samples(report, strict=strict):
            series[name][labelled(labels)] = value
    lines = []
    for name, values in series.items():
        if values:
            lines += [f"# HELP {name} {_HELP[name]}", f"# TYPE {name} gauge"]
            lines += [f"{name}{labels} {value}" for labels, value in values.items()]
    return "\n".join(lines)


def _samples(report: Report, *, strict: bool) -> Iterator[tuple[str, dict[str, str], str]]:
    where = {"host": report.host, "profile": report.profile}
    for finding in report.findings:
        yield "gpuprov_check", {**where, "check": finding.check, "outcome": finding.outcome}, "1"
    for outcome in OUTCOMES:
        yield "gpuprov_checks", {**where, "outcome": outcome}, str(report.summary[outcome])
    yield "gpuprov_exit_code", where, str(report.exit_code(strict=strict))
    if observed := observed_at(report):
        yield "gpuprov_observed_timestamp_seconds", where, f"{observed.timestamp():.0f}"
    if report.elapsed_s is not None:
        yield "gpuprov_elapsed_seconds", where, f"{report.elapsed_s:.3f}"


def labelled(labels: Mapping[str, str]) -> str:
    """The labels, with the three characters escaped that the format escapes."""
    pairs = []
    for name, value in labels.items():
        escaped = inert(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        pairs.append(f'{name}="{escaped}"')
    return "{" + ",".join(pairs) + "}"
