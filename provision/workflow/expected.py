"""How long `up` takes: measured by every run that launched a machine and proved it, and told to the next one of the same kind."""

import statistics
from typing import Any, Final

from provision.launch.journal import Journal
from provision.structs import Struct, asdict

_LONGEST_S: Final = 1e6
_LAST: Final = 5  # runs that count: a cloud and a package mirror change


class RunKind(Struct):
    """What runs must have in common to take about as long: the profile, the cloud, whether it is embedded, what was left out, the count."""

    profile_digest: str
    cloud: str
    rehearsal: bool
    without_gpu: bool
    count: int


class ExpectedTime(Struct):
    """The median of earlier runs: its seconds, and of how many runs."""

    seconds: float
    runs: int
    cloud: str

    def __str__(self) -> str:
        several = "the median of {} earlier runs" if self.runs > 1 else "as the one earlier run"
        return f"about {self.seconds:.0f} s are expected: {several.format(self.runs)} of this profile on {self.cloud}"


def note(journal: Journal, name: str, kind: RunKind, seconds: float) -> None:
    """Keep how long a run took, with the record of its launch; it stays when the launch is forgotten."""
    journal.log_run(name, {**_as_entry(kind), "seconds": round(seconds, 1)})


def expected(journal: Journal, kind: RunKind) -> ExpectedTime | None:
    """What the last runs of a kind took; None where none was measured."""
    entries = [entry for entry in journal.runs() if all(entry.get(key) == value for key, value in _as_entry(kind).items())]
    latest = sorted(entries, key=lambda entry: str(entry.get("at")))[-_LAST:]
    said = [entry.get("seconds") for entry in latest]
    times = [float(each) for each in said if isinstance(each, int | float) and 0 <= each < _LONGEST_S]
    return ExpectedTime(statistics.median(times), len(times), kind.cloud) if times else None


def _as_entry(kind: RunKind) -> dict[str, Any]:
    return asdict(kind)
