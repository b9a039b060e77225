"""`gpuprov bake`: images of machines that match their profile, from which later launches start."""

from collections.abc import Sequence
from typing import Any, Final

import click

from provision.cli import options, tables
from provision.cli.progress import narration
from provision.clouds import CLOUDS
from provision.clouds.baked import BakedImage
from provision.errors import EXIT_OK, EXIT_UNKNOWN, GpuprovError
from provision.launch.place import Attempt
from provision.review.where import Organisation
from provision.structs import asdict, replace
from provision.workflow import audited, bake, baked_images
from provision.workflow.interrupted import still_runs
from provision.workflow.session import Session
from provision.workflow.up import request_for

_REHEARSE: Final = click.option(
    "--rehearse",
    is_flag=False,
    flag_value=CLOUDS[0],
    type=click.Choice(CLOUDS),
    help=f"Use the embedded cloud: no account, no cost, hosts on this machine.  [alone: {CLOUDS[0]}]",
)
_REGION: Final = click.option("--region", metavar="REGION", help="The only region of the profile that counts.")


@click.group("bake")
def command() -> None:
    """Make images of machines that match their profile, list them, and remove them.

    A place with `baked_image: if-current` or `required` starts from such an image, as long as lock, roles, gpuprov and base image are those
    that it was made of. An image is billed until `gpuprov bake remove`; neither `down` nor `sweep` removes one.
    """


def _wish(session: Session, given: dict[str, Any]) -> bake.BakeWish:
    organisation: Organisation = given["organisation"]
    request = request_for(session, given["profile"], given["bundle"], organisation, rehearsal=given["rehearse"])
    request = replace(request, without_gpu=given["without_gpu"], rehearsal=given["rehearse"])
    return bake.wish(request, given["region"])


def _what(function: Any) -> Any:
    """The options of what is baked."""
    for option in (options.as_json, options.without_gpu, options.organisation, _REHEARSE, _REGION, options.bundle):
        function = option(function)
    return options.profile_to_run(function)


@command.command("plan")
@_what
def plan_command(**given: Any) -> None:
    """Show what an image would be made of, and the policy of whoever makes it. No cloud is contacted."""
    plan = bake.shown(_wish(Session.open(), given))
    recipe = plan.recipe
    made_of = {"lock": recipe.lock, "roles": recipe.roles, "engine": recipe.engine, "scope": recipe.scope}
    places = [str(place) for place in plan.places]
    data = {"line": recipe.line, "machine": plan.machine, "made_of": made_of, "places": places}
    data |= {"actions": plan.actions, "policies": plan.policies}
    lines = [
        f"an image of {recipe.line}, made of the machine {plan.machine} in the first of: {'; '.join(places)}",
        *(f"  {name:7} {value}" for name, value in made_of.items()),
        "its digest is of these and of the base image, which the cloud names when it is asked",
    ]
    for cloud, actions in plan.actions.items():
        policy = plan.policies[cloud]
        words = options.to_json(policy) if policy else ", ".join(actions)
        lines += [f"whoever runs `gpuprov bake` on {cloud} needs:", words]
    options.show(data, *lines, as_json=given["as_json"])


@command.command("make")
@_what
def make_command(**given: Any) -> None:
    """Launch a machine, set it up, prove it, clean it, and make an image of its disk; the machine is removed afterwards.

    The same command goes on where an earlier one stopped. Where the image is there already, nothing is made. Older images of the profile
    are deprecated.
    """
    session, attempts = Session.open(), list[Attempt]()
    wish = _wish(session, given)
    name = wish.up.name
    with (
        audited.changing(
            session, "bake make", name, rehearsal=given["rehearse"] is not None, by=wish.up, without_gpu=given["without_gpu"]
        ) as ending,
        narration(lambda: still_runs(session, name)) as narrator,
    ):
        try:
            made = bake.make(session, wish, attempts, say=narrator.say, on_task=narrator.task)
        except GpuprovError:
            narrator.pause()
            click.get_current_context().obj["beside"] = {"attempts": [attempt.as_dict() for attempt in attempts]}
            raise
        ending.results = {"image": made.image.id, "new": made.host is not None}
    image = made.image
    data = {
        "image": asdict(image),
        "made": made.host is not None,
        "deprecated": [each.id for each in made.replaced],
        "report": made.host.result.report.as_dict() if made.host else None,
    }
    verb = "made" if made.host else "is there already"
    lines = [
        f"{image.id} {verb}: {image.line}, {image.size_gb} GB in {image.region}, digest {image.digest}, base {image.parts.get('base')}"
    ]
    lines += [f"deprecated {each.id} of {each.made_at[:10]}" for each in made.replaced]
    lines += [f"  `baked_image: if-current` in a place of {image.line} uses it; `gpuprov bake remove {image.id}` removes it"]
    options.show(data, *lines, as_json=given["as_json"])


@command.command("list")
@options.in_rehearsal
@options.as_json
@click.pass_context
def list_command(ctx: click.Context, *, rehearse: bool, as_json: bool) -> None:
    """List the images, in all regions where there could be one. The exit code is 3 when a cloud or region that you use did not answer."""
    with narration() as narrator:
        found = baked_images.find(Session.open(), rehearsal=rehearse, say=narrator.say)
    data = {"images": [asdict(row) for row in found.rows], "problems": list(found.problems)}
    lines = [tables.table(["IMAGE", "LINE", "CLOUD", "REGION", "STATE", "MADE", "GB", "BASE", "DIGEST"], [_row(r) for r in found.rows])]
    none = options.none_of("images", found.problems, unknown=found.unknown)
    options.show(data, *(lines if found.rows else [none]), as_json=as_json)
    options.show_gaps(() if as_json else found.problems)
    ctx.exit(EXIT_UNKNOWN if found.unknown else EXIT_OK)


def _row(row: BakedImage) -> list[str]:
    state = "deprecated" if row.deprecated and row.state == "available" else row.state
    return [row.id, row.line, row.cloud, row.region, state, row.made_at[:16], str(row.size_gb), row.parts.get("base", "?"), row.digest[:12]]


@command.command("remove")
@click.argument("images", metavar="IMAGE|LINE…", nargs=-1, required=True)
@click.option(
    "--even-if-used",
    is_flag=True,
    help="Do not ask what uses them. A group or template that names a removed image starts no machine any more, and replaces none.",
)
@options.in_rehearsal
@options.assume_yes
@options.as_json
def remove_command(*, images: Sequence[str], even_if_used: bool, rehearse: bool, yes: bool, as_json: bool) -> None:
    """Remove images by their ids, or all of a profile by its name, with the snapshots that hold their disks.

    An image that a group or a launch template starts its next machine from is refused, and then nothing is removed.
    """
    options.need_terminal(yes=yes, command="bake remove")
    session, answers = Session.open(), list[bool]()
    audit = audited.changing(session, "bake remove", "", rehearsal=rehearse, images=tuple(images), even_if_used=even_if_used)
    with audit as ending, narration() as narrator:

        def confirm(lines: list[str]) -> bool:
            narrator.pause()
            answers.append(options.confirm(f"remove these {len(lines)}?", lines, yes=yes))
            return answers[-1]

        phrases = baked_images.remove(session, images, rehearsal=rehearse, say=narrator.say, confirm=confirm, even_if_used=even_if_used)
        ending.results = {"removed": len(phrases), "agreed": all(answers)}
    options.show({"removed": phrases}, *([f"removed {each}" for each in phrases] or ["nothing was removed"]), as_json=as_json)
