"""`gpuprov idle`."""

import shlex

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.errors import EXIT_UNKNOWN, UsageError
from provision.launch.journal import check_name
from provision.workflow import audited, idle_fleet, power
from provision.workflow.idle import IdleAction, IdleRequest, act, wait_until_idle
from provision.workflow.interrupted import still_runs
from provision.workflow.search import launch_machines
from provision.workflow.session import Session


@click.command("idle")
@click.argument("name", metavar="NAME")
@click.option(
    "--then",
    "action",
    type=click.Choice([each.value for each in IdleAction]),
    required=True,
    help="What to do then; `shrink` is for fleets.",
)
@click.option("--idle-for", default="30m", metavar="TIME", show_default=True, help="How long nothing must have happened on any machine.")
@click.option(
    "--warn", default="5m", metavar="TIME", show_default=True, help="How long before that to warn, and to run the hook. 0s for never."
)
@click.option(
    "--hook", default="", metavar="COMMAND", help="A program that is run with the warning; unless it ends with 0, nothing is done."
)
@click.option("--watch-for", default="", metavar="TIME", help="Give up after this long, with exit code 3.  [default: never]")
@click.option("--interval", "interval_s", type=click.FloatRange(0.5, 60), default=10.0, metavar="S", help="Between samples.  [default: 10]")
@click.option("--keep", type=click.IntRange(0), default=0, metavar="N", help="With `shrink`: how many members the fleet keeps at least.")
@click.option("--at-full-price", is_flag=True, help="Stop even where a stopped machine is billed at the full rate.")
@options.assume_yes
@options.as_json
@click.pass_context
def command(
    ctx: click.Context,
    *,
    name: str,
    action: str,
    idle_for: str,
    warn: str,
    hook: str,
    watch_for: str,
    interval_s: float,
    keep: int,
    at_full_price: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Wait until the machines of the launch NAME are idle, warn, and stop or remove all of them.

    They are watched as by `monitor --until idle`: missing data counts as busy, and activity after the warning starts the wait again. The
    deadline applies whether this runs or not. `--then stop` empties the disks inside a machine: where there are any, it asks before it
    watches, and needs --yes without a terminal.

    NAME may be a fleet. `--then shrink` waits until one or more of its members are idle, ends exactly those, and makes the group smaller by
    as many. `--then down` waits for all of them, and ends the fleet.
    """
    session = Session.open()
    try:
        program = tuple(shlex.split(hook))
    except ValueError as error:
        msg = f"--hook {hook!r} is not a command: {error}"
        raise UsageError(msg, hint="close each quote") from error
    request = IdleRequest(
        name=check_name(name),
        idle_s=options.seconds(idle_for),
        warn_s=options.seconds(warn),
        interval_s=interval_s,
        action=IdleAction(action),
        watch_s=options.seconds(watch_for) if watch_for else None,
        hook=program,
        at_full_price=at_full_price,
        keep=keep,
    )
    fleet = idle_fleet.record_of(session, name)
    if not _may_empty(session, request, yes=yes or fleet is not None):
        options.show({"name": name, "idle": False, "done": []}, "nothing was watched or stopped", as_json=as_json)
        return
    with narration() as narrator:
        members = idle_fleet.wait_for_idle(session, request, say=narrator.say) if fleet else ()
        reached = bool(members) if fleet else wait_until_idle(session, request, say=narrator.say)
    if not reached:
        options.show({"name": name, "idle": False, "done": []}, f"{name} was not idle for {idle_for}; nothing was done", as_json=as_json)
        ctx.exit(EXIT_UNKNOWN)
    rehearsal = fleet.rehearsal if fleet else session.record(name).rehearsal
    with (
        audited.changing(session, f"fleet {action}" if fleet else action, name, rehearsal=rehearsal) as ending,
        narration(lambda: still_runs(session, name, certain=False)) as narrator,
    ):
        done = idle_fleet.act(session, request, members, say=narrator.say) if fleet else act(session, request, say=narrator.say)
        ending.results = {"done": done}
    lines = done or [f"the members of {name} that were idle have left meanwhile; nothing was done"]
    options.show({"name": name, "idle": True, "done": done}, *lines, as_json=as_json)


def _may_empty(session: Session, request: IdleRequest, *, yes: bool) -> bool:
    """Whether disks inside the machines may be emptied by a stop when nobody is there to be asked."""
    if yes or request.action is not IdleAction.STOP:
        return True
    request.check_times()
    with narration() as narrator:
        launch = launch_machines(session, request.name, rehearsal=session.record(request.name).rehearsal, say=narrator.say)
        disks = power.emptied(session, launch)
    return not disks or options.agreed_to_empty(f"idle {request.name} --then stop", disks, yes=False)
