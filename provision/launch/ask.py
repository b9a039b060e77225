"""Ask the clouds about a plan before it is launched. The questions change nothing and cost nothing."""

from provision.clouds.base import Answer
from provision.concurrent import at_once
from provision.errors import CloudError
from provision.launch.ours import Ours
from provision.launch.plan import Plan, PlannedPlace, draft_order


def ask_clouds(plan: Plan, ours: Ours) -> dict[PlannedPlace, tuple[Answer, ...]]:
    """Ask about every place that would be tried, all at the same time. A place that cannot be examined has one answer with the reason.

    Args:
        plan: has the places.
        ours: the clouds.
    """

    def ask(place: PlannedPlace) -> tuple[Answer, ...]:
        ours.on_step(f"asking {place.cloud} about {place}")
        draft = draft_order(plan.profile, plan.profile_sha256, plan.name, place)
        try:
            return tuple(ours.handle((place.cloud, place.region)).examine(draft))
        except CloudError as error:
            return (Answer("region", holds=None, said=error.message),)

    candidates = plan.candidates
    return dict(zip(candidates, at_once(ask, candidates, most=8), strict=True))
