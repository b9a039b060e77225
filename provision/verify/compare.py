"""Two observations side by side: what differs between two hosts or two times, and what did not survive a reboot."""

from collections.abc import Iterator
from typing import Any, Final

from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.system import IdentityFacts
from provision.verify.finding import Report

# They differ at each observation, and nobody set them.
_VOLATILE: Final = frozenset({"identity.boot_id", "memory.available_mib", "load", "clock.up_s"})
# The same for each GPU: an idle one lowers its link, and reports that it idles.
_VOLATILE_OF_GPU: Final = (".pcie_generation.value", ".event_reasons.value")
_HOLDS: Final = frozenset({"pass", "waived", "warn"})


def changes(old: Facts, new: Facts) -> list[str]:
    """What differs, in the order of the facts' names: `driver.loaded: 580.95.05 → 595.44.01`.

    Each is one line without characters that a terminal would obey, whatever the host sent.
    """
    before, after = dict(_leaves(old.raw)), dict(_leaves(new.raw))
    lines = []
    for name in sorted({*before, *after}):
        was, now = before.get(name, "nothing"), after.get(name, "nothing")
        volatile = name in _VOLATILE or name.split(".", maxsplit=1)[0] in _VOLATILE or name.endswith(_VOLATILE_OF_GPU)
        if was != now and not volatile:
            lines.append("".join(c if c.isprintable() else "�" for c in f"{name}: {was} → {now}"))
    return lines


def _leaves(raw: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(raw, dict) and raw:
        for key, value in raw.items():
            # Every fact is {"value": …} or {"unknown": …}; only the second key tells the reader something.
            step = str(key) if key != "value" or path.count(".") else ""
            yield from _leaves(value, ".".join(part for part in (path, step) if part))
    elif isinstance(raw, list) and any(isinstance(item, dict) for item in raw):
        for number, item in enumerate(raw):
            yield from _leaves(item, f"{path}.{number}")
    else:
        yield path, ", ".join(map(str, raw)) if isinstance(raw, list) else str(raw)


def losses(before: Report, old: Facts, after: Report, new: Facts) -> list[str]:
    """What held before a reboot and does not hold after it, a line each; NotObservedError unless a reboot in between was observed."""
    if old.read(IdentityFacts).boot_id == new.read(IdentityFacts).boot_id:
        msg = "both observations are of the same boot: the host was not rebooted in between"
        raise NotObservedError(msg)
    before_reboot = {finding.check: finding.observed for finding in before.findings if finding.outcome in _HOLDS}
    return [
        f"{finding.check} did not survive the reboot: {before_reboot[finding.check]} → {finding.outcome}: {finding.observed}"
        for finding in after.findings
        if finding.check in before_reboot and finding.outcome in {"fail", "unknown"}
    ]
