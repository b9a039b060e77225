"""`gpuprov review`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provision.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provision.profile.locked import Lock
    from provision.profile.model import Profile
    from provision.review.against import Shift
    from provision.review.policy import PolicyFile
    from provision.review.tree import Review
    from provision.review.where import Organisation

_COLOURS = {"high": "red", "medium": "yellow", "low": "blue", "note": None}
_SIGNS = {"wider": "+", "narrower": "-", "other": "~"}


@click.command("review")
@click.argument("profile", metavar="NAME|FILE")
@click.option("-o", "--output", metavar="BUNDLE", help="The folder, or the file ending in .zip, to write.  [default: NAME.bundle]")
@click.option(
    "--against", metavar="OLD", help="Show only what changed since OLD: a bundle, a lock or a profile. Writes nothing without -o."
)
@options.organisation_rules
@options.as_json
def command(*, profile: str, output: str | None, against: str | None, organisation: Organisation, as_json: bool) -> None:
    """Write what others need to decide on a profile: pages, data, profile and lock in one bundle. Asks nobody.

    The page shows the risks first, then what will exist, its price, who can reach it, what is installed and changed, and what will be
    proven. Equal input gives equal bytes on the same day. What breaks the organisation's rules is a high risk, and no error here.
    """
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.profile import load  # noqa: PLC0415
    from provision.review import approval, bundle  # noqa: PLC0415

    rules = approval.rules_for(organisation)
    with narrator().speaking() as tell:
        path = load.find(profile)
        tell.say(f"reading {path.name}")
        source = path.read_bytes()
        asked = load.parse(source, path)
        review, lock = _reviewed(path, source, asked, rules)
        changed = _against(against, review, lock, rules) if against else None
        target = Path(output or f"{asked.name}.bundle") if output or not against else None
        if target is not None:
            tell.say(f"writing {target}")
            files = _files(review, source, lock) | ({"policy.yml": rules.raw} if rules else {})
            files[bundle.STATEMENT] = bundle.statement(asked, lock, rules.raw if rules else None, files)
            bundle.write(target, files)
    digest = bundle.read(target).digest if target is not None else None
    if as_json:
        shown: dict[str, Any] = {"bundle": str(target) if target else None, "sha256": digest}
        shown |= {"review": review.as_dict()} if changed is None else {"changes": [shift.as_dict() for shift in changed]}
        options.print_json(shown)
        return
    if changed is None:
        _show(review)
    else:
        _show_changes(against or "", changed)
    if target is not None:
        click.echo(f"\n{target}: sha256:{digest}")


def _reviewed(path: Path, source: bytes, asked: Profile, rules: PolicyFile | None) -> tuple[Review, Lock]:
    """The review of a profile with the lock beside it, or with what would be locked now."""
    from provision.profile import lockfile  # noqa: PLC0415
    from provision.review import pages  # noqa: PLC0415

    lock = lockfile.find_or_build(path, asked, options.today())
    return pages.review_of(asked, lock, source, rules, options.today()), lock


def _files(review: Review, source: bytes, lock: Lock) -> dict[str, bytes]:
    """The parts of the bundle but its statement."""
    from provision.profile import lockfile  # noqa: PLC0415
    from provision.review import pages  # noqa: PLC0415

    return {"profile.yml": source, "lock.yml": lockfile.dump(lock).encode(), **pages.pages(review)}


def _against(old: str, review: Review, lock: Lock, rules: PolicyFile | None) -> Sequence[Shift]:
    """What changed since a bundle, a lock or a profile."""
    from provision.profile import load, lockfile  # noqa: PLC0415
    from provision.review import against, approval, bundle, pages  # noqa: PLC0415
    from provision.review.content import content  # noqa: PLC0415
    from provision.review.where import Organisation  # noqa: PLC0415

    path = Path(old)
    if path.is_dir() or path.suffix == ".zip":
        there = bundle.read(path)
        source = there.files["profile.yml"]
        judged = pages.judged(approval.rules_for(Organisation(), there), there.profile, there.lock, source, options.today())
        before = content(there.profile, there.lock, source, judged=judged)
        return against.shifts(against.as_reviewed(before, there.files.get("review.json", b"")), review)
    if old.endswith((".lock.yml", ".lock.yaml")):
        return against.of_locks(lockfile.read(path), lock)
    found = load.find(old)
    source = found.read_bytes()
    before, _ = _reviewed(found, source, load.parse(source, found), rules)
    return against.shifts(before, review)


def _show(review: Review) -> None:
    """The summary on a terminal: what is decided on, and each risk with its line."""
    from provision.report.base import inert  # noqa: PLC0415

    def say(text: str) -> str:
        return inert(text.replace("\n", " "), 2_000)

    click.echo(f"{say(review.sentence)}\n{say(review.purpose)}\nowner: {say(review.owner)} <{say(review.owner_email)}>\n")
    for risk in review.risks:
        click.secho(f"{risk.severity:<7}", fg=_COLOURS[risk.severity], bold=risk.severity == "high", nl=False)
        line = f"line {risk.line}" if risk.line else ""
        click.echo(f"{line:<9}{say(risk.title)}")
        if risk.severity in {"high", "medium"}:
            click.echo(f"{'':<16}{say(risk.reason)}")
            if risk.narrower:
                click.echo(f"{'':<16}narrower: {say(risk.narrower)}")
    money = review.money
    hourly = f"{money.highest_usd_per_hour:.3f} USD" if money.highest_usd_per_hour is not None else "not known"
    click.echo(f"\nprice: {hourly} an hour, limit {money.limit_usd_per_hour:.2f} USD for {money.deadline_h} h")
    click.echo(f"opens: {', '.join(say(f'{d.port} from {d.network}') for d in review.doors if d.direction == 'in')}")
    wheels = sum(len(e.wheels) for e in review.environments)
    click.echo(f"installs: {len(review.packages)} packages and {wheels} wheels; {len(review.changes)} declared changes on the host")
    click.echo(f"proves: {sum(c.applies for c in review.controls)} checks at tier {review.tier}")


def _show_changes(old: str, changed: Sequence[Shift]) -> None:
    from provision.report.base import inert  # noqa: PLC0415

    subject = ""
    for shift in changed:
        if shift.subject != subject:
            subject = shift.subject
            click.echo(f"{subject}:")
        colour = {"wider": "yellow", "narrower": "green"}.get(shift.direction)
        click.secho(f"  {_SIGNS[shift.direction]} {inert(shift.text, 2_000)}", fg=colour)
        if shift.means:
            click.echo(f"      {inert(shift.means, 2_000)}")
    click.echo(f"{len(changed)} changes since {old} (+ gives more away, - less, ~ neither)" if changed else f"nothing changed since {old}")
