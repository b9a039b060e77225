"""What a review says of the fleet that a profile plans: its largest size, what that costs, what its members may do, and its risks."""

from provision.clouds.fleet import BREAKER
from provision.errors import GpuprovError
from provision.launch.fleet_orders import planned_fleet
from provision.launch.plan import Plan
from provision.review.modules import AddRisk
from provision.review.tree import FleetItem, Question

FLEET_QUESTION = Question(
    "fleet", "A fleet of this size may exist; its members and the people who run `gpuprov fleet` may have these permissions."
)


def fleet(plan: Plan) -> FleetItem | None:
    """The fleet of a plan; None where its profile plans none."""
    settings = plan.profile.fleet
    if settings is None:
        return None
    try:
        planned = planned_fleet(plan, settings.store)
    except GpuprovError as error:
        return FleetItem(settings.store, refusal=str(error))
    limits, price = plan.profile.limits, planned.option.first.whole_price_usd
    hourly = round(price * limits.machines, 4) if price is not None and limits.machines is not None else None
    place = planned.option.first.place
    return FleetItem(
        store=planned.store,
        cloud=planned.option.cloud,
        region=planned.option.region,
        machine=f"{place.instance_type} {place.market}",
        largest=limits.machines,
        usd_per_hour=hourly,
        usd_to_deadline=None if hourly is None else round(hourly * limits.deadline_h, 2),
        halts_after=BREAKER,
        identity=planned.policies.role,
        member=planned.policies.member,
        caller=planned.policies.caller,
    )


def fleet_risks(add: AddRisk, plan: Plan) -> None:
    """What a fleet adds to the risks of one machine."""
    settings = plan.profile.fleet
    if settings is None:
        return
    try:
        planned = planned_fleet(plan, settings.store)
    except GpuprovError as error:
        add("fleet-refused", "medium", "The fleet that the profile plans cannot be made", str(error), narrower="no `fleet`", key="fleet")
        return
    why = "the cloud launches a machine for each that ends, and nobody is asked, until the deadline of the group"
    add("fleet-replaces", "low", "Members of the fleet are replaced by themselves", why, narrower="no `fleet`", key="fleet")
    reach = planned.policies.reach
    add("fleet-reach", "medium", "Root on a member of the fleet can disturb the others", reach, narrower="no `fleet`", key="fleet")
    differs = "; ".join(dict.fromkeys(planned.policies.differs.values()))
    add("fleet-members", "note", "What members have otherwise than a single machine", differs, key="fleet")
    why = f"whoever can delete in {planned.store} removes programs and evidence; a member runs no program without your signature"
    add("fleet-store", "low", "The fleet depends on a bucket", why, narrower="a bucket whose versions nobody may delete", key="fleet.store")
