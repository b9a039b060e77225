"""Ask the clouds about a plan before it is launched. The questions change nothing and cost nothing."""

from provision import clouds
from provision.clouds.base import Answer, Cloud, Order
from provision.concurrent import at_once
from provision.errors import CloudError
from provision.launch.baked import found, recipe_of
from provision.launch.ours import Ours
from provision.launch.plan import Plan, PlannedPlace, draft_order
from provision.structs import replace


def ask_clouds(plan: Plan, ours: Ours) -> dict[PlannedPlace, tuple[Answer, ...]]:
    """Ask about every place that would be tried, all at the same time. A place that cannot be examined has one answer with the reason.

    Args:
        plan: has the places.
        ours: the clouds.
    """

    def ask(place: PlannedPlace) -> tuple[Answer, ...]:
        ours.on_step(f"asking {place.cloud} about {place}")
        stored = plan.profile.fleet.store if plan.profile.fleet else ""
        kept = stored if clouds.fleet_stores([place.cloud]).get(stored.partition("://")[0]) else ""
        draft = replace(draft_order(plan.profile, plan.profile_sha256, plan.name, place), store=kept)
        try:
            handle = ours.handle((place.cloud, place.region))
            return (*handle.examine(draft), *_baked(handle, draft, plan))
        except CloudError as error:
            return (Answer("region", holds=None, said=error.message),)

    candidates = plan.candidates
    return dict(zip(candidates, at_once(ask, candidates, most=8), strict=True))


def _baked(handle: Cloud, draft: Order, plan: Plan) -> tuple[Answer, ...]:
    """Whether there is a current image of ours, where the place may start from one."""
    if draft.place is None or draft.place.baked_use == "never":
        return ()
    try:
        image, why = found(handle, draft, recipe_of(plan.profile, plan.lock, without_gpu=False))
    except CloudError as error:
        return (Answer("baked-image", holds=None, said=error.message),)
    if image is not None:
        said = f"{image.id} of {image.made_at[:10]}, digest {image.digest}, made from {image.parts.get('base', '?')}"
        return (Answer("baked-image", holds=True, said=said),)
    if draft.place.baked_use == "required":
        return (Answer("baked-image", holds=False, said=f"there is no current image: {why}"),)
    return (Answer("baked-image", holds=True, said=f"there is no current image ({why}): it would start from the base image"),)
