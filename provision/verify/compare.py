"""Two observations side by side: what differs between two hosts or two times, and what a reboot did not leave as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.system import IdentityFacts
from provision.verify.finding import Report

__all__ = ["changes", "lost"]

# Different at each look, and nobody's choice.
_PASSING: Final = frozenset({"identity.boot_id", "memory.available_mib", "load", "clock.up_s"})
# The same of each GPU: an idle one lowers its link, and says that it idles.
_PASSING_OF_GPU: Final = (".pcie_generation.value", ".event_reasons.value")
_HELD: Final = frozenset({"pass", "waived", "warn"})


def changes(old: Facts, new: Facts) -> list[str]:
    """What differs, a line each, in the order of the facts' names: `driver.loaded: 580.95.05 → 595.44.01`."""
    before, after = dict(_leaves(old.raw)), dict(_leaves(new.raw))
    lines = []
    for name in sorted({*before, *after}):
        was, now = before.get(name, "nothing"), after.get(name, "nothing")
        passing = name in _PASSING or name.split(".", maxsplit=1)[0] in _PASSING or name.endswith(_PASSING_OF_GPU)
        if was != now and not passing:
            lines.append(f"{name}: {was} → {now}")
    return lines


def _leaves(raw: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(raw, dict) and raw:
        for key, value in raw.items():
            # Every fact is {"value": …} or {"unknown": …}; only the second is a word worth reading.
            step = str(key) if key != "value" or path.count(".") else ""
            yield from _leaves(value, ".".join(part for part in (path, step) if part))
    elif isinstance(raw, list) and any(isinstance(item, dict) for item in raw):
        for number, item in enumerate(raw):
            yield from _leaves(item, f"{path}.{number}")
    else:
        yield path, ", ".join(map(str, raw)) if isinstance(raw, list) else str(raw)


def lost(before: Report, old: Facts, after: Report, new: Facts) -> list[str]:
    """What held before a reboot and does not after it, a line each.

    Raises:
        NotObservedError: the host was not rebooted in between, or that is not known.
    """
    was, now = old.read(IdentityFacts).boot_id, new.read(IdentityFacts).boot_id
    if was == now:
        msg = "the host was not rebooted since: both observations are of one boot"
        raise NotObservedError(msg)
    held = {finding.check: finding for finding in before.findings if finding.outcome in _HELD}
    return [
        f"{finding.check} did not survive the reboot: {held[finding.check].observed} → {finding.outcome}: {finding.observed}"
        for finding in after.findings
        if finding.check in held and finding.outcome in {"fail", "unknown"}
    ]
