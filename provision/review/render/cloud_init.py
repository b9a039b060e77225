"""The user data of the first boot, as `up` sends it, for a machine that is made by hand in a console."""

from __future__ import annotations

from provision.review.render.base import Marked, Subject

__all__ = ["render", "user_data"]


def render(subject: Subject) -> dict[str, bytes]:
    """The file. On AWS it holds the key; on GCP the key is metadata of the machine."""
    return {"user-data.yml": user_data(subject).encode()}


def user_data(subject: Subject) -> str:
    """What the request of the subject's cloud tells the first boot."""
    marked = Marked(subject)
    order = marked.order
    if subject.option.cloud == "gcp":
        from provision.clouds.gcp.requests import bulk  # noqa: PLC0415 - one cloud's request is enough

        items = bulk(order, [], subject.option.region, [order.zone])["instance_properties"]["metadata"]["items"]
        told = next(item["value"] for item in items if item["key"] == "user-data")
    else:
        from provision.clouds.aws.requests import run_instances  # noqa: PLC0415 - as above

        told = run_instances(order, subject.option.region)["UserData"]
    return subject.filled(marked.parts(told))
