"""`bake`: a machine is launched, set up, proven and cleaned, and its disk becomes an image that later launches start from.

The machine is one that nobody used: it is launched for this, under a name of its own, with the deadline of its profile. So what is on the
image is what the profile asked for, and not what somebody did on a machine since. Each step can be repeated. An image that was accepted is
taken up by its digest; a machine that may have been cleaned already is of no use to a later run, which begins with another.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provision import clouds
from provision.clouds.baked import BakedImage, Bakery, BaseImage, ImageFailedError, Recipe, current
from provision.clouds.base import Instance
from provision.errors import CloudUnsupportedError, NameTakenError, UsageError
from provision.host.clean import clean
from provision.launch import place
from provision.launch.baked import bakery_of, recipe_of
from provision.launch.journal import Journal, check_name
from provision.launch.lifecycle import destroy
from provision.launch.ours import Ours
from provision.launch.permissions import grant
from provision.launch.plan import Plan, PlannedPlace, draft_order, plan
from provision.paths import text_of, write_whole
from provision.structs import Struct, replace
from provision.workflow.session import Say, Session
from provision.workflow.up import ProvenHost, UpRequest, up

if TYPE_CHECKING:
    from provision.converge.progress import Progress
    from provision.launch.place import Attempt, Option

_IMAGE_S: Final = 7200.0  # a snapshot of some hundred GB takes its time, and a later run goes on waiting
_STOP_S: Final = 900.0  # machines with GPUs and much memory are slow to stop
_LONGEST: Final = 40


class Made(Struct):
    """What `bake` did.

    Attributes:
        host: the machine as it was proven; None where the image was there already.
        replaced: the older images of the line that are deprecated now.
    """

    image: BakedImage
    host: ProvenHost | None
    replaced: tuple[BakedImage, ...]


class BakeWish(Struct):
    """What is to be baked.

    Attributes:
        up: profile and lock, under the name of the machine.
        planned: its plan, with the places that can be baked at.
        recipe: what the image is made of, apart from its base.
    """

    up: UpRequest
    planned: Plan
    recipe: Recipe


def machine_name(profile: str) -> str:
    """What the machine is called that an image of a profile is made of."""
    return check_name(f"bake-{profile}"[:_LONGEST].rstrip("-"))


def wish(request: UpRequest, region: str | None) -> BakeWish:
    """What is to be baked. No cloud is contacted.

    Args:
        request: the profile and its lock.
        region: the only one that counts; None for all of the profile.

    Raises:
        UsageError: no place of the profile can be baked at.
        CloudUnsupportedError: this release bakes no images on its clouds.
    """
    name = machine_name(request.profile.name)
    request = replace(request, name=name, from_base=True, count=1, minimum=1)
    planned = plan(request.profile, request.lock, name, request.lines, cheapest=request.cheapest)
    here = [each for each in planned.places if region in {None, each.region}]
    if not here:
        msg = f"profile {request.profile.name} has no place in {region}"
        raise UsageError(msg, hint=f"it has places in {', '.join(dict.fromkeys(each.region for each in planned.places)) or 'no region'}")
    on_demand = [each for each in here if each.place.market == "on-demand"]
    if not on_demand:
        msg = f"every place of {request.profile.name} is {here[0].place.market}, and such a machine cannot be stopped to become an image"
        raise UsageError(msg, hint="add a place with `market: on-demand`; the image serves the other places too")
    able = [each for each in on_demand if each.place.bakes()]
    if not able:
        titles = ", ".join(dict.fromkeys(clouds.provider(each.cloud).title for each in on_demand))
        msg = f"this release bakes no images on {titles}"
        raise CloudUnsupportedError(msg, hint="make a snapshot in the cloud's console, and name it in `image:` of the place")
    planned = replace(planned, places=tuple(able))
    request = replace(request, plan=planned)
    return BakeWish(request, planned, recipe_of(request.profile, request.lock, without_gpu=request.without_gpu))


class BakePlan(Struct):
    """What is to be baked, as it is shown before.

    Attributes:
        machine: the name of the machine that the image is made of.
        actions, policies: by cloud, what whoever makes it may do, and the smallest policy document where the cloud has such a thing.
    """

    recipe: Recipe
    machine: str
    places: tuple[PlannedPlace, ...]
    actions: dict[str, tuple[str, ...]]
    policies: dict[str, dict[str, Any] | None]


def shown(wanted: BakeWish) -> BakePlan:
    """The plan of an image. No cloud is contacted."""
    profile, places = wanted.up.profile, wanted.planned.places
    actions, policies = dict[str, tuple[str, ...]](), dict[str, dict[str, Any] | None]()
    for cloud in dict.fromkeys(each.cloud for each in places):
        mine = [each for each in places if each.cloud == cloud]
        provider, name = clouds.provider(cloud), wanted.planned.name
        images, policies[cloud] = provider.bake_policy(grant(profile, name, mine), profile.name)
        drafts = [draft_order(profile, wanted.planned.profile_sha256, name, each) for each in mine]
        actions[cloud] = tuple(sorted({*images, *(action for draft in drafts for action in provider.permissions(draft))}))
    return BakePlan(wanted.recipe, wanted.planned.name, places, actions, policies)


def make(session: Session, wanted: BakeWish, attempts: list[Attempt], *, say: Say, on_task: Callable[[Progress], None]) -> Made:
    """Make the image, or go on where a run before this one stopped; one that is there already is only confirmed.

    Raises:
        ImageFailedError: the machine does not hold its profile, could not be cleaned, or the cloud gave the image up.
        NameTakenError: somebody else makes the image of that profile now.
    """
    request = wanted.up
    options = place.options(wanted.planned, request.rehearsal)
    place.check_any(wanted.planned, options)
    connect = session.connect(rehearsal=request.rehearsal is not None, start=True, say=say)
    if request.rehearsal is not None:
        session.offer_images(request.profile, say)
    bench = Journal(session.state / "bakes")
    with _one_at_a_time(wanted), bench.hold(wanted.recipe.line):
        mark = _Mark(session.state / "bakes" / f"{wanted.recipe.line}.cleaned")
        work = _Baking(session, wanted, options, Ours(connect, say), mark, say)
        image, host = work.there() or work.of_stopped(), None
        if image is None:
            (host,) = up(session, request, attempts, say=say, on_task=on_task)
            image = work.of_proven(host)
        return work.finish(image, host)


@contextlib.contextmanager
def _one_at_a_time(wanted: BakeWish) -> Iterator[None]:
    """The machine's name is what only one can have who bakes a profile; say to the others what they can do, which is not another name."""
    try:
        yield
    except NameTakenError as error:
        msg = f"somebody makes an image of {wanted.recipe.line} now: {error.message}"
        hint = (
            "run the same command again when that is done: it finds the image, and makes none; "
            f"if nobody is at work on it, `gpuprov down {wanted.planned.name}` removes the machine that is left"
        )
        raise NameTakenError(msg, hint=hint, detail=error.detail) from error


class _Mark(Struct):
    """What is noted of a machine from the moment at which it is cleaned: nobody can log in there any more."""

    path: Path

    def write(self, machine: str, digest: str, *, done: bool) -> None:
        write_whole(self.path, json.dumps({"machine": machine, "digest": digest, "done": done}), sync=True)

    def read(self) -> dict[str, object]:
        """Empty where nothing is noted, or nothing that can be read."""
        try:
            found = json.loads(text_of(self.path, errors="replace"))
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)


class _Baking(Struct):
    """One image at work."""

    session: Session
    wanted: BakeWish
    options: list[Option]
    ours: Ours
    mark: _Mark
    say: Say

    def there(self) -> BakedImage | None:
        """The image of today's digest in the first region that has it; one that failed is removed, because it holds the name."""
        recipe = self.wanted.recipe
        for option in self.options:
            if option.refusal:
                continue
            self.say(f"looking for an image of {recipe.line} in {option.region}")
            bakery = bakery_of(self.ours.handle((option.cloud, option.region)))
            base, images = self._base(bakery, option), bakery.images(recipe.line)
            found = current(images, recipe, base.id)
            if found is not None:
                return found
            bakery.remove([each for each in images if each.state == "failed" and each.digest == recipe.digest(base.id)], on_step=self.say)
        return None

    def of_stopped(self) -> BakedImage | None:
        """The image of the machine that an earlier run cleaned and stopped; a machine that is of no more use is removed."""
        name, noted = self.wanted.planned.name, self.mark.read()
        record = self.session.journal.get(name)
        if noted and record is not None and record.machines:
            for instance in self.ours.look(name, record.regions):
                if instance.id == noted.get("machine") and noted.get("done") is True and instance.state == "stopped":
                    base = self._base_of(instance)
                    if noted.get("digest") == self.wanted.recipe.digest(base.id):
                        return self._made(instance, base)
            self.say(f"removing {name}, which an earlier run had begun to clean")
            self._remove_machine()
        self.mark.clear()
        return None

    def of_proven(self, host: ProvenHost) -> BakedImage:
        """Clean a proven machine, stop it, and have its image made."""
        instance, report = host.instance, host.result.report
        if report.exit_code(strict=False):
            wrong = ", ".join(finding.check for finding in report.findings if finding.outcome in {"fail", "unknown"})
            msg = f"{instance.name} does not match its profile, so no image was made of it: {wrong}"
            hint = f"`gpuprov verify {instance.name}` shows why; it stays until its deadline, or until `gpuprov down {instance.name}`"
            raise ImageFailedError(msg, hint=hint)
        base = self._base_of(instance)
        digest, made_at = self.wanted.recipe.digest(base.id), dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        self.mark.write(instance.id, digest, done=False)
        self.say("removing what is this machine's own")
        try:
            record = {"line": self.wanted.recipe.line, "made_at": made_at, **self.wanted.recipe.parts(base.id)}
            clean(self.session.ssh.target(instance.name), record, clouds.provider(instance.cloud).agent_files)
        except ImageFailedError:
            self._remove_machine()
            raise
        self.session.ssh.close(instance.name)
        self.say(f"stopping {instance.id}")
        self.ours.handle((instance.cloud, instance.region)).stop([instance], timeout_s=_STOP_S)
        self.mark.write(instance.id, digest, done=True)
        return self._made(instance, base)

    def finish(self, image: BakedImage, host: ProvenHost | None) -> Made:
        """Wait for the image, remove its machine, and deprecate what it replaces."""
        bakery = bakery_of(self.ours.handle((image.cloud, image.region)))
        image = bakery.wait(image, timeout_s=_IMAGE_S, on_step=self.say)
        if image.deprecated:
            self.say(f"{image.id} is in use again")
            bakery.deprecate([image], lift=True)
            image = replace(image, deprecated=False)
        self._remove_machine()
        self.mark.clear()
        older = [each for each in bakery.images(image.line) if _is_replaced(each, image)]
        if older:
            self.say(f"deprecating {', '.join(each.id for each in older)}")
            bakery.deprecate(older)
        return Made(image, host, tuple(older))

    def _base(self, bakery: Bakery, option: Option) -> BaseImage:
        profile, planned = self.wanted.up.profile, self.wanted.planned
        return bakery.base(draft_order(profile, planned.profile_sha256, planned.name, option.first))

    def _base_of(self, instance: Instance) -> BaseImage:
        """The image that a machine started from."""
        option = next((each for each in self.options if (each.cloud, each.region) == (instance.cloud, instance.region)), None)
        if option is None:
            msg = f"an earlier run left {instance.id} in {instance.region}, and this run has no place there"
            hint = f"run it with `--region {instance.region}` to go on there, or remove the machine: `gpuprov down {instance.group}`"
            raise UsageError(msg, hint=hint)
        return self._base(bakery_of(self.ours.handle((instance.cloud, instance.region))), option)

    def _made(self, instance: Instance, base: BaseImage) -> BakedImage:
        self.say(f"making an image of {instance.id}")
        bakery, what = bakery_of(self.ours.handle((instance.cloud, instance.region))), f"making an image in {instance.region}"
        return self.ours.patience.ask(lambda: bakery.make(instance, self.wanted.recipe, base), on_step=self.say, what=what)

    def _remove_machine(self) -> None:
        """Remove the machine and all that was made for it; one that is gone already is forgotten."""
        name = self.wanted.planned.name
        record = self.session.journal.get(name)
        if record is not None:
            self.say(f"removing the machine {name}")
            destroy(self.ours, self.session.journal, name, record.regions)
            self.session.forget_hosts([name, *record.hosts])


def _is_replaced(each: BakedImage, image: BakedImage) -> bool:
    """Whether an image is an older one of the same line and the same owner."""
    same = (each.line, each.owner, each.region) == (image.line, image.owner, image.region)
    return same and each.id != image.id and each.state == "available" and not each.deprecated and each.made_at <= image.made_at
