"""The images of ours in all regions: found by tag, and removed by id or by the name of their profile."""

from collections.abc import Callable, Iterable

from provision import clouds
from provision.clouds.baked import BakedImage, Bakery, ImageInUseError
from provision.clouds.base import Cloud
from provision.errors import CloudError, CredentialsExpiredError, CredentialsMissingError, InstanceNotFoundError, counted
from provision.launch.baked import bakery_of
from provision.launch.lifecycle import first_regions
from provision.launch.ours import Ours, unanswered
from provision.launch.regions import everywhere
from provision.structs import Struct
from provision.workflow.search import regions
from provision.workflow.session import Say, Session


class ImageInventory(Struct):
    """The images that were found, what could not be asked, and whether images of ours may be there unseen."""

    rows: tuple[BakedImage, ...]
    problems: tuple[str, ...]
    unknown: bool


def find(session: Session, *, rehearsal: bool, say: Say) -> ImageInventory:
    """Every image of ours, in all regions where there could be one."""
    places = regions(session, rehearsal=rehearsal) | everywhere()
    able = {pair for pair in places if clouds.provider(pair[0]).place.bakes()}
    say(f"asking {counted(len(able), 'region')} for images")
    ours = Ours(session.connect(rehearsal=rehearsal), say)
    first = first_regions(able)
    answers = ours.everywhere(first, _of)
    mute = {cloud for (cloud, _), answer in answers.items() if isinstance(answer, CredentialsMissingError | CredentialsExpiredError)}
    answers |= ours.everywhere({pair for pair in able - first if pair[0] not in mute}, _of)
    rows = {(row.cloud, row.id): row for answer in answers.values() if not isinstance(answer, CloudError) for row in answer}
    shown = tuple(sorted(rows.values(), key=lambda row: (row.line, row.made_at)))
    return ImageInventory(shown, tuple(unanswered(answers)), bool(ours.hiding(answers)))


def _of(handle: Cloud) -> list[BakedImage]:
    return handle.bakery.images() if handle.bakery is not None else []


def remove(
    session: Session,
    ids: Iterable[str],
    *,
    rehearsal: bool,
    say: Say,
    confirm: Callable[[list[str]], bool],
    even_if_used: bool = False,
) -> list[str]:
    """Remove images by their ids, or all of a line by its name; returns a phrase for each, nothing where that was not confirmed.

    With `even_if_used` no cloud is asked what starts machines from them.

    Raises:
        InstanceNotFoundError: there is no image of that id or line.
        ImageInUseError: something starts its next machine from one of them; none is removed.
        CloudError: a cloud did not say what uses them; none is removed.
    """
    wanted, found = list(dict.fromkeys(ids)), find(session, rehearsal=rehearsal, say=say)
    chosen = [row for row in found.rows if {row.id, row.line} & set(wanted)]
    unknown = [each for each in wanted if all(each not in {row.id, row.line} for row in chosen)]
    if unknown:
        problems = f"; not asked: {'; '.join(found.problems)}" if found.problems else ""
        msg = f"no image of ours is, or is of, {', '.join(unknown)}{problems}"
        raise InstanceNotFoundError(msg, hint="`gpuprov bake list` shows the images")
    kept = _by_bakery(Ours(session.connect(rehearsal=rehearsal), say), chosen)
    if not even_if_used:
        _refuse_used(kept, say)
    if not confirm([f"{row.id} of {row.line} in {row.region}, {row.size_gb} GB" for row in chosen]):
        return []
    return [phrase for bakery, rows in kept for phrase in bakery.remove(rows, on_step=say)]


def _by_bakery(ours: Ours, chosen: list[BakedImage]) -> list[tuple[Bakery, list[BakedImage]]]:
    """The images of each region, with who keeps them."""
    kept = []
    for cloud, region in dict.fromkeys((row.cloud, row.region) for row in chosen):
        there = [row for row in chosen if (row.cloud, row.region) == (cloud, region)]
        pair = (cloud, region) if region != "global" else next(iter(first_regions({p for p in everywhere() if p[0] == cloud})))
        kept.append((bakery_of(ours.handle(pair)), there))
    return kept


def _refuse_used(kept: list[tuple[Bakery, list[BakedImage]]], say: Say) -> None:
    """Refuse images that something starts its next machine from.

    Raises:
        ImageInUseError: with every such image, and what uses it.
        CloudError: it is not known.
    """
    say("asking what starts machines from them")
    used = [(row, users[row.id]) for bakery, rows in kept for users in [bakery.users(rows)] for row in rows if row.id in users]
    if used:
        which = "; ".join(f"{row.id} in {row.region} is used by {', '.join(what)}" for row, what in used)
        msg = f"nothing was removed: {which}"
        hint = "`gpuprov fleet roll` brings a fleet to another image, `gpuprov fleet down` ends it; `--even-if-used` removes it anyway"
        raise ImageInUseError(msg, hint=hint)
