"""What a review says of a Ray cluster: who can run programs on its machines."""

from provision.profile.model import Profile
from provision.review.modules import AddRisk


def cluster_risks(add: AddRisk, profile: Profile) -> None:
    """The port of the head, which asks for no password."""
    ray = profile.stack.ray
    if ray is None:
        return
    whose = "this machine" if ray.is_head else ray.head
    title = f"Whoever reaches port {ray.port} of {whose} can run programs on every machine of the Ray cluster"
    why = (
        "Ray asks for no password; such a program runs as gpuprov-ray, which has no sudo, and reaches what the machine reaches and the "
        "files of all jobs; each login of a machine in the cluster can do so too; gpuprov opens no port for it"
    )
    narrower = "a network in which only the machines of the cluster reach each other, or no `stack.ray`"
    add("ray-open", "high", title, why, narrower=narrower, key="stack.ray")
