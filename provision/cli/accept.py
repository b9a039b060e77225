"""`gpuprov accept`."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import click

from provision.cli import options

if TYPE_CHECKING:
    from provision.review.where import Organisation


@click.command("accept")
@click.argument("evidence", metavar="EVIDENCE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--bundle", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The review bundle that it was verified with."
)
@click.option(
    "-o", "--output", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path), help="What to write.  [default: certificate.html]"
)
@click.option("--md", is_flag=True, help="Write Markdown instead.  [default: certificate.md]")
@options.organisation
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, *, evidence: Path, bundle: Path, output: Path | None, md: bool, organisation: Organisation, as_json: bool
) -> None:
    """Write the certificate of hosts that were handed over: what holds, what is waived and by whom, what is unknown, who approved.

    EVIDENCE is what `gpuprov verify HOST --bundle FILE --evidence EVIDENCE` wrote. Evidence that was changed, belongs to another bundle, or
    whose findings do not follow from its facts is refused. Exits with the verdict: 0 when all holds, 1 when a check failed, 3 when
    something is unknown. Asks nobody.
    """
    from provision.report.base import inert  # noqa: PLC0415 - heavy, and --help must be light
    from provision.review import accept, approval, certificate  # noqa: PLC0415
    from provision.verify import evidence as proof  # noqa: PLC0415

    now = dt.datetime.now(dt.UTC)
    agreement = approval.agreement(bundle, organisation, now)
    found = accept.certificate(proof.read(evidence), agreement, now)
    target = output or Path("certificate.md" if md else "certificate.html")
    options.write(target, (certificate.markdown(found) if md else certificate.html(found)) + "\n")
    if as_json:
        options.print_json({"certificate": str(target), **found.as_dict()})
    else:
        click.echo(f"{found.word}: {inert(found.sentence, 1_000)}")
        for one in found.approvals:
            click.echo(f"  {one.outcome}: {one.principal}: {one.why or f'signed {one.signed_at}, until {one.expires}'}")
        click.echo(f"  statement sha256:{found.digests['statement']}\n{target}")
    ctx.exit(found.verdict)
