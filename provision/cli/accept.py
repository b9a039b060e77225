"""`gpuprov accept`."""

import datetime as dt
import shlex
from pathlib import Path

import click

from provision.cli import echo, options
from provision.report.base import inert, quoted
from provision.review import accept, certificate
from provision.review.approval import agreement
from provision.review.where import Organisation
from provision.verify.evidence import read


@click.command("accept")
@click.argument("evidence", metavar="EVIDENCE", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--bundle", required=True, metavar="FILE", type=click.Path(path_type=Path), help="The review bundle that the hosts were verified with."
)
@options.file_option("-o", "--output", text="The file to write.  [default: certificate.html]")
@click.option("--md", is_flag=True, help="Write Markdown instead.  [default: certificate.md]")
@options.organisation
@options.as_json
@click.pass_context
def command(
    ctx: click.Context, *, evidence: Path, bundle: Path, output: Path | None, md: bool, organisation: Organisation, as_json: bool
) -> None:
    """Write the certificate of hosts that were handed over: what passes, what is waived and by whom, what is unknown, who approved.

    EVIDENCE is the file that `gpuprov verify HOST --bundle FILE --evidence EVIDENCE` wrote. It is refused if it was changed, if it belongs
    to another bundle, or if its report does not follow from its facts. The exit code is the verdict: 0 if all hosts match, 1 if a check
    failed, 3 if something is unknown; the rules say who must have signed. No cloud or host is contacted.
    """
    now = dt.datetime.now(dt.UTC)
    proof = read(evidence)
    result = accept.certificate(proof, agreement(bundle, organisation, now), now)
    target = output or Path("certificate.md" if md else "certificate.html")
    options.write(target, (certificate.markdown(result) if md else certificate.html(result)) + "\n")
    if as_json:
        options.print_json({"certificate": str(target), **result.as_dict()})
    else:
        echo(f"{result.word}: {inert(result.sentence, 1_000)}")
        for one in result.approvals:
            echo(f"  {one.outcome}: {one.principal}: {one.why or f'signed {one.signed_at}, until {one.expires}'}")
        echo(f"  statement sha256:{result.digests['statement']}\n{target}")
        host = quoted(proof.hosts[0].report) if len(proof.hosts) == 1 and proof.hosts[0].report.elapsed_s is not None else "HOST"
        again = f"`gpuprov verify {host} --against {shlex.quote(str(evidence))}`"
        echo(f"next: hand {target} over with {evidence} and {bundle}; {again} says later what has changed")
    ctx.exit(result.verdict)
