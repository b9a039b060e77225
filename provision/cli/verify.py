"""`gpuprov verify`."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.review.approval import Agreed
    from provision.review.where import Organisation
    from provision.verify.ahead import EarlyObservations
    from provision.verify.checks.base import Tier
    from provision.verify.drift import Drift
    from provision.verify.evidence import Evidence
    from provision.verify.fleet import Verification
    from provision.workflow.proof import How

# The registry of provision.report, which --help must not import; a test holds that they are the same.
FORMATS = ("text", "json", "html", "markdown", "junit", "tap", "ctrf", "nagios", "prometheus")


def _print_schema(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:  # noqa: FBT001 - click's signature
    if wanted:
        from provision.report.json import schema  # noqa: PLC0415 - heavy, and --help must be light

        options.print_json(schema())
        ctx.exit()


@click.command("verify")
@click.argument("hosts", metavar="[HOST]…", nargs=-1, shell_complete=options.complete_instances)
@options.optional_profile
@click.option(
    "--bundle", metavar="FILE", type=click.Path(path_type=Path), help="A review bundle: its profile and lock are what should hold."
)
@options.organisation
@click.option("--launched", is_flag=True, help="Also every instance that was launched from here.")
@click.option("--inventory", type=click.Path(path_type=Path), metavar="FILE", help="Also the hosts of an Ansible inventory.")
@click.option(
    "--facts", "files", multiple=True, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Judge facts from `gpuprov probe` instead of hosts; may be repeated.",
)  # fmt: skip
@click.option("--only", multiple=True, metavar="CHECK", help="Make this check only; may be repeated.")
@click.option("--skip", multiple=True, metavar="CHECK", help="Do not make this check; may be repeated. The report names it.")
@options.tier
@click.option("--wait", "wait", default="0", metavar="TIME", help="Look again until all holds, as 90s or 10m.")
@click.option("--after-reboot", type=click.Path(dir_okay=False, path_type=Path), metavar="FACTS", help="Facts from before: what was lost?")
@click.option("--jobs", type=click.IntRange(1, 256), default=32, show_default=True, help="Hosts to observe at once.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(1, 3600), default=120, show_default=True, help="Seconds for one observation.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="What to print.  [default: text]")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also write the page here.")
@click.option(
    "--evidence",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write report, facts, profile and lock, bound by digests; with --bundle also who approved.",
)
@click.option("--against", type=click.Path(dir_okay=False, path_type=Path), metavar="EVIDENCE", help="What moved since this evidence?")
@click.option(
    "--schema", is_flag=True, is_eager=True, expose_value=False, callback=_print_schema, help="Print the JSON Schema of --json, and end."
)
@options.without_gpu
@options.strict
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    hosts: tuple[str, ...],
    profile: str | None,
    bundle: Path | None,
    organisation: Organisation,
    launched: bool,
    inventory: Path | None,
    files: tuple[Path, ...],
    only: tuple[str, ...],
    skip: tuple[str, ...],
    tier: Tier | None,
    wait: str,
    after_reboot: Path | None,
    jobs: int,
    timeout_s: float,
    form: str | None,
    html: Path | None,
    evidence: Path | None,
    against: Path | None,
    without_gpu: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Prove that a profile holds on each HOST: an instance's name, `localhost`, or anything ssh knows.

    Exits with 0 when all holds, 1 when a check failed or, with --against, what held then does not, 3 when something is unknown.
    """
    _refuse_contradictions(any_files=bool(files), any_hosts=bool(hosts or launched or inventory), form=form, as_json=as_json)
    _refuse_two_profiles(profile, bundle)
    # Before all else: the connections open while the rest is imported.
    ahead = ctx.with_resource(_ahead(hosts[:jobs], timeout_s, tier, profile))
    from provision.cli.progress import narrator  # noqa: PLC0415 - heavy, and --help must be light
    from provision.verify.drift import drifts  # noqa: PLC0415
    from provision.verify.evidence import evidence as evidence_of  # noqa: PLC0415
    from provision.verify.judge import Selection  # noqa: PLC0415
    from provision.workflow import proof  # noqa: PLC0415
    from provision.workflow.session import Session  # noqa: PLC0415

    _refuse_unknown(*only, *skip)
    how = proof.How(Selection(frozenset(only), frozenset(skip), tier), without_gpu, timeout_s, jobs, options.seconds(wait), strict)
    agreed, how = _agreed(bundle, organisation, how, ahead) if bundle else (None, how)
    then = _evidence_of(against, how, agreed) if against else None
    session = Session.open()
    if files:
        verified = proof.judged(session, files, profile, how)
    else:
        with narrator().speaking() as tell:
            verified = proof.observed(session, proof.Which(hosts, launched, inventory), profile, how, watch=tell.hosts, ahead=ahead)
    lost, lost_code = proof.after_reboot(verified, after_reboot, how) if after_reboot else ([], 0)
    drift = drifts(then, verified) if then else None
    _print("json" if as_json else form or "text", verified, lost, drift, strict=strict)
    if html:
        options.write(html, _rendered("html", verified, strict=strict) + "\n")
    if evidence:
        options.write(evidence, options.to_json(evidence_of(verified, how.made, agreed.reviewed if agreed else None)) + "\n")
    ctx.exit(_code(verified, lost_code, drift, strict=strict))


@contextlib.contextmanager
def _ahead(hosts: Sequence[str], timeout_s: float, tier: Tier | None, profile: str | None) -> Iterator[EarlyObservations]:
    """Connections to the hosts that were named, on their way, and what is asked of them as soon as that is known."""
    from provision import paths  # noqa: PLC0415 - as above
    from provision.host.sshconfig import SshHome  # noqa: PLC0415
    from provision.verify.ahead import EarlyObservations  # noqa: PLC0415

    home = SshHome(paths.state_dir() / "ssh")
    with EarlyObservations([home.reach(host) for host in hosts], timeout_s=timeout_s) as ahead:
        if hosts and profile:
            from provision.profile import load  # noqa: PLC0415 - as above, and after the connections

            ahead.tell(tier or load.load(load.find(profile)).verify.tier)
        yield ahead


def _refuse_contradictions(*, any_files: bool, any_hosts: bool, form: str | None, as_json: bool) -> None:
    if any_files == any_hosts:
        msg = "give either a HOST or --facts FILE"
        raise click.UsageError(msg)
    if as_json and form not in {None, "json"}:
        msg = f"--json and --format {form} ask for two things"
        raise click.UsageError(msg)


def _refuse_two_profiles(profile: str | None, bundle: Path | None) -> None:
    if profile is not None and bundle is not None:
        msg = "--bundle brings its own profile and lock: leave --profile out"
        raise click.UsageError(msg)


def _refuse_unknown(*names: str) -> None:
    from provision.verify.checks import CHECKS  # noqa: PLC0415 - heavy, and --help must be light

    for name in names:
        options.known(name, [check.id for check in CHECKS], "check")


def _agreed(bundle: Path, organisation: Organisation, how: How, ahead: EarlyObservations) -> tuple[Agreed, How]:
    """Who agreed to a bundle, and what should hold by it, which the hosts are told while the rest is read."""
    from provision.review import approval  # noqa: PLC0415 - heavy, and after the connections

    agreed = approval.agreed(bundle, organisation, dt.datetime.now(dt.UTC))
    ahead.tell(how.selection.tier_of(agreed.bundle.profile))
    for one in agreed.signatures:
        click.echo(f"{one.outcome}: {one.principal}: {one.why or f'signed {one.signed_at}, until {one.expires}'}", err=True)
    return agreed, dataclasses.replace(how, signed=(agreed.bundle.profile, agreed.bundle.lock))


def _evidence_of(path: Path, how: How, agreed: Agreed | None) -> Evidence:
    """The evidence to compare with, refused before anything is observed when it cannot be compared."""
    from provision.verify import drift, evidence  # noqa: PLC0415 - heavy, and after the connections

    found = evidence.read(path)
    drift.require_comparable(found, how.made, agreed.bundle.digest if agreed else None)
    return found


def _code(verified: Sequence[Verification], lost_code: int, drift: Sequence[Drift] | None, *, strict: bool) -> int:
    """The exit code: a failure outweighs what is unknown, here as everywhere."""
    from provision.errors import EXIT_FAILED_CHECK, EXIT_OK  # noqa: PLC0415
    from provision.verify.drift import any_broke  # noqa: PLC0415
    from provision.verify.finding import exit_code  # noqa: PLC0415

    codes = (
        exit_code([one.report for one in verified], strict=strict),
        lost_code,
        EXIT_FAILED_CHECK if any_broke(drift or ()) else EXIT_OK,
    )
    return EXIT_FAILED_CHECK if EXIT_FAILED_CHECK in codes else max(codes)


def _print(name: str, verified: Sequence[Verification], lost: Sequence[str], drift: Sequence[Drift] | None, *, strict: bool) -> None:
    from provision.report.base import inert  # noqa: PLC0415 - heavy, and --help must be light

    shown = _rendered(name, verified, strict=strict)
    if name == "json" and drift is not None:
        shown = json.dumps({**json.loads(shown), "drift": [each.as_dict() for each in drift]}, indent=2, sort_keys=True)
    click.echo(shown)
    for line in lost:
        click.echo(line, err=name != "text")
    if drift is not None and name != "json":
        said = [inert(str(each), 1_000) for each in drift] or ["nothing moved since the evidence"]
        click.echo("\nsince the evidence:\n" + "\n".join(f"  {line}" for line in said), err=name != "text")


def _rendered(name: str, verified: Sequence[Verification], *, strict: bool) -> str:
    """The reports in one format: text of one host in the terminal's colours, the page with what was measured."""
    from provision import report as reports  # noqa: PLC0415

    found = [one.report for one in verified]
    if name == "text" and len(found) == 1:
        from provision.report import text  # noqa: PLC0415

        return text.render(found[0], strict=strict, color=sys.stdout.isatty())
    if name == "html" and found:
        from provision.report import html  # noqa: PLC0415
        from provision.report.chart import charts  # noqa: PLC0415
        from provision.verify.points import measured  # noqa: PLC0415

        points = [seen for one in verified if (seen := measured(one.report.host, one.facts))]
        return html.render(*found, strict=strict, charts=charts(points))
    return reports.render(name, found, strict=strict)
