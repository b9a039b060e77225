"""`gpuprov verify`: its words, and the connections that open before the rest of the program is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from provision import paths
from provision.cli import options
from provision.host.sshconfig import SshHome
from provision.report import FORMATS
from provision.review.where import Organisation
from provision.structs import Struct
from provision.verify.ahead import EarlyObservations
from provision.verify.observe import Asked

if TYPE_CHECKING:
    from provision.verify.checks.base import Tier


def _print_schema(ctx: click.Context, _param: click.Parameter, schema: bool) -> None:  # noqa: FBT001 - click's signature
    if schema:
        from provision.report import json  # noqa: PLC0415 - 0.3 s, before which the connections are to be open

        options.print_json(json.schema())
        ctx.exit()


class VerifyWords(Struct):
    """The words of the command line, by the names of the options below."""

    hosts: tuple[str, ...]
    profile: str | None
    bundle: Path | None
    organisation: Organisation
    launched: bool
    inventory: Path | None
    files: tuple[Path, ...]
    only: tuple[str, ...]
    skip: tuple[str, ...]
    tier: Tier | None
    wait: str
    after_reboot: Path | None
    jobs: int
    timeout_s: float
    form: str | None
    html: Path | None
    evidence: Path | None
    against: Path | None
    record: Path | None
    together: bool
    without_gpu: bool
    strict: bool
    every_check: bool
    as_json: bool

    def check(self) -> None:
        """Refuse words that contradict each other."""
        if bool(self.files) == bool(self.hosts or self.launched or self.inventory):
            msg = "give either a HOST or --facts FILE"
            raise click.UsageError(msg)
        if self.together and (self.files or (len(set(self.hosts)) == 1 and not (self.launched or self.inventory))):
            msg = "--together is about several running hosts: name two HOSTs or more"
            raise click.UsageError(msg)
        if self.as_json and self.form not in {None, "json"}:
            msg = f"--json and --format {self.form} contradict each other"
            raise click.UsageError(msg)
        if self.profile is not None and self.bundle is not None:
            msg = "leave --profile out: --bundle has its own profile and lock"
            raise click.UsageError(msg)


@click.command("verify")
@click.argument("hosts", metavar="[HOST]…", nargs=-1, shell_complete=options.complete_instances)
@options.optional_profile
@click.option("--bundle", metavar="FILE", type=click.Path(path_type=Path), help="A bundle whose profile and lock the hosts must match.")
@options.organisation
@click.option("--launched", is_flag=True, help="Verify every instance that was launched from here, too.")
@click.option("--inventory", type=click.Path(path_type=Path), metavar="FILE", help="Verify the hosts of an Ansible inventory, too.")
@click.option(
    "--facts", "files", multiple=True, type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="Judge facts from `gpuprov probe` instead of hosts. May be repeated.",
)  # fmt: skip
@click.option(
    "--only",
    multiple=True,
    metavar="CHECK",
    shell_complete=options.complete_checks,
    help="Make only this check. May be repeated.",
)
@click.option(
    "--skip",
    multiple=True,
    metavar="CHECK",
    shell_complete=options.complete_checks,
    help="Leave this check out. May be repeated. The report names it.",
)
@options.tier
@click.option(
    "--wait", "wait", default="0", metavar="TIME", help="Repeat until everything passes, for at most this long, such as 90s or 10m."
)
@options.file_option("--after-reboot", metavar="FACTS", text="Compare with facts from before a reboot, and say what was lost.")
@click.option("--jobs", type=click.IntRange(1, 256), default=32, metavar="N", help="How many hosts to observe at once.  [default: 32]")
@options.timeout
@click.option("--format", "form", type=click.Choice(list(FORMATS)), help="The format to print.  [default: text]")
@options.file_option("--html", text="Also write the HTML page to this file.")
@options.file_option("--evidence", text="Also write report, facts, profile and lock, bound by digests. With --bundle also who approved it.")
@options.file_option("--against", metavar="EVIDENCE", text="Compare with earlier evidence, and say what changed.")
@options.file_option("--record", text="With --tier perf: judge by the figures of the fleet in this file, and add those of these hosts.")
@click.option(
    "--together",
    is_flag=True,
    help="Also check the hosts as a group: lock, clocks, names, ports, MTU, RDMA; at tier perf an all-reduce over their GPUs.",
)
@click.option(
    "--schema", is_flag=True, is_eager=True, expose_value=False, callback=_print_schema, help="Print the JSON Schema of --json and exit."
)
@options.without_gpu
@options.strict
@click.option("--all", "every_check", is_flag=True, help="List every check in the text, also what passes, is waived or does not apply.")
@options.as_json
@click.pass_context
def command(ctx: click.Context, /, **arguments: Any) -> None:
    """Prove that each HOST matches its profile. HOST is an instance's name, `localhost`, or anything ssh knows.

    The exit code is 0 if everything passed, 1 if a check failed or something got worse since --against, and 3 if something is unknown.
    """
    words = VerifyWords(**arguments)
    words.check()
    home = SshHome(paths.state_dir() / "ssh")
    with EarlyObservations([home.reach(host) for host in words.hosts[: words.jobs]], timeout_s=words.timeout_s) as ahead:
        # The connections open, and the hosts begin, while the rest of the program is loaded, which takes as long: 0.3 s for the profile,
        # which says what else to ask the hosts, and 0.3 s for the checks (tests/bench/verify.py).
        if words.hosts and words.profile:
            from provision.profile import load  # noqa: PLC0415 - as said above

            profile = load.load(load.find(words.profile))
            ahead.tell(Asked.of(profile, words.tier or profile.verify.tier))
        from provision.cli.verdict import print_verdict  # noqa: PLC0415 - as said above

        ctx.exit(print_verdict(words, ahead))
