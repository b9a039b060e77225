"""What a review says of the way out: the organisation's proxy and its own certificate authority."""

from provision.profile.egress import fingerprints, subjects
from provision.profile.model import Profile
from provision.review.modules import AddRisk


def way_out(add: AddRisk, profile: Profile) -> None:
    """What a proxy sees, and what the holder of an authority can do."""
    sources = profile.sources
    if sources.proxy:
        why = f"it sees which packages are downloaded; {', '.join(sources.past)} bypass it"
        add("proxy", "note", f"Downloads go through {sources.proxy}", why, key="sources.proxy")
    if sources.ca:
        who = "; ".join(f"{name}, sha256:{digest}" for name, digest in zip(subjects(sources.ca), fingerprints(sources.ca), strict=True))
        why = (
            f"{who}: whoever has its key can read and change every TLS connection of the machine; packages and wheels are still refused "
            "unless the repositories' signatures are valid and the hashes are those of the lock"
        )
        narrower = "no `sources.ca`, and a proxy that leaves TLS as it is"
        add("own-authority", "medium", "The whole system trusts an authority of the profile", why, narrower=narrower, key="sources.ca")
