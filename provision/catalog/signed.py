"""Rules about signed kernel modules, a variable only in a stack that asks for them: Secure Boot loads no others."""

from typing import Final

from provision.catalog import read
from provision.catalog.records.signed import SignedModules
from provision.catalog.records.stack import Branch, System
from provision.catalog.solve import Rule

SIGNED: Final = "signed-modules"


def _record(system: System) -> SignedModules | None:
    return read.driver().signed_for(system.key)


def _has_branch(system: System, branch: Branch, signed: str | None) -> bool:
    record = _record(system)
    return signed is None or record is None or not record.branches or branch.branch in record.branches


def _has_flavour(system: System, flavour: str, signed: str | None) -> bool:
    record = _record(system)
    return signed is None or record is None or bool(record.modules[flavour])


def _branches(system: System) -> str:
    record = _record(system)
    return f"{record.by} signs driver {' and '.join(record.branches)} for {system.key}" if record else ""


def _flavours(system: System) -> str:
    record = _record(system)
    signed = [flavour for flavour, packages in record.modules.items() if packages] if record else []
    return f"{record.by if record else ''} signs {' and '.join(signed)} kernel modules only"


def signed_rules() -> tuple[Rule, ...]:
    """Which system, branch and flavour has signed kernel modules."""
    return (
        Rule(
            "system-has-signed-modules",
            ("os", SIGNED),
            lambda system, signed: signed is None or _record(system) is not None,
            lambda system, _signed: f"{system.key} has no signed kernel modules: {read.driver().why_unsigned(system.key)}",
        ),
        Rule(
            "branch-is-signed",
            ("os", "driver", SIGNED),
            _has_branch,
            lambda system, branch, _signed: f"{_branches(system)}, not {branch.branch}, in packages that stay",
        ),
        Rule(
            "flavour-is-signed",
            ("os", "flavour", SIGNED),
            _has_flavour,
            lambda system, flavour, _signed: f"{_flavours(system)}, not {flavour}",
        ),
    )
