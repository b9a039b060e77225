"""What is rendered: one place of a plan."""

from dataclasses import dataclass, field

from provision import clouds
from provision.clouds.forms import Given, Subject
from provision.errors import ImageNotFoundError, UsageError
from provision.launch.place import check_has_places, refused
from provision.launch.plan import Plan, PlannedPlace, draft_order


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSubject(Subject):
    """A subject with its plan, for the forms that set a host up and do not only launch it."""

    plan: Plan = field(repr=False)


def subject(plan: Plan, place: PlannedPlace, values: Given | None = None) -> ProfileSubject:
    """One place of a plan, to be rendered with the values that are known already."""
    profile = plan.profile
    return ProfileSubject(
        profile=profile.name,
        profile_sha256=plan.profile_sha256,
        lock_sha256=plan.lock.digest,
        name=plan.name,
        cloud=place.cloud,
        place=str(place),
        region=place.region,
        image_id=place.image_id,
        os=(profile.os.name, profile.os.version),
        deadline_h=profile.limits.deadline_h,
        from_caller="caller" in profile.network.ssh_from,
        template=draft_order(profile, plan.profile_sha256, plan.name, place),
        given=values or Given(),
        plan=plan,
    )


def choose(plan: Plan, *, cloud: str | None = None, where: str | None = None, launches: bool = True) -> PlannedPlace:
    """The first place of a plan that can be launched in, of this cloud and in this region or zone if there is one.

    Where nothing is launched, its price is of no matter.

    Raises:
        UsageError: the profile names no such place.
        PriceOverLimitError, PriceUnknownError, CloudUnsupportedError: nothing can be launched in any of them.
    """
    check_has_places(plan.profile)
    places = [place for place in plan.places if cloud in {None, place.cloud}]
    if not places:
        msg = f"profile {plan.profile.name} has no place on {cloud}"
        others = " or ".join(dict.fromkeys(place.cloud for place in plan.places))
        raise UsageError(msg, hint=f"it has places on {others}; add one on {cloud}, or leave that out")
    matching = [place for place in places if where in {None, place.region, place.zone}]
    if not matching:
        msg = f"profile {plan.profile.name} has no place in {where!a}"
        raise UsageError(msg, hint=f"it has {', '.join(dict.fromkeys(place.location for place in places))}")
    able = next((place for place in matching if place.refusal is None or (place.refusal.is_about_money and not launches)), None)
    if able is None:
        msg = f"profile {plan.profile.name} cannot be rendered for any of these places"
        raise refused(msg, matching)
    return able


def login(subject: Subject) -> str:
    """The first user of the image of a subject's place.

    Raises:
        ImageNotFoundError: no image of its system is known there.
    """
    provider = clouds.provider(subject.cloud)
    image = provider.image(subject.os, subject.template.place)
    if image is None:
        systems = ", ".join(" ".join(system) for system in provider.image_systems())
        msg = f"no image of {' '.join(subject.os)} on {provider.title} is known"
        raise ImageNotFoundError(msg, hint=f"choose one of {systems}, or another cloud")
    return image.login
