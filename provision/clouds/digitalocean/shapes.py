"""The types of what is read of DigitalOcean's answers. Source: its OpenAPI document, specification/resources/*/models.

Other keys are not looked at; a key that is missing is found where it is read.
"""

from typing import Any, TypedDict


class _Region(TypedDict, total=False):
    slug: str


class _Network(TypedDict, total=False):
    type: str
    ip_address: str


class _Networks(TypedDict, total=False):
    v4: list[_Network] | None


class _Resource(TypedDict, total=False):
    """A droplet, volume, firewall or tag."""

    id: int | str
    name: str
    status: str
    tags: list[str] | None
    region: _Region
    created_at: str | None
    size_slug: str
    networks: _Networks | None
    inbound_rules: list[Any] | None
    pending_changes: list[Any] | None


class _Offer(TypedDict, total=False):
    """An image, size or region."""

    id: int | str
    slug: str | None
    name: str | None
    distribution: str | None
    status: str
    regions: list[str] | None
    available: bool
    created_at: str | None
    min_disk_size: int | None
    price_hourly: float


class _Vpc(TypedDict, total=False):
    region: str


class _Account(TypedDict, total=False):
    droplet_limit: int
    volume_limit: int


class _Pages(TypedDict, total=False):
    pages: dict[str, Any] | None


class DigitalOceanAnswer(TypedDict, total=False):
    """Any of the answers."""

    account: _Account
    action: _Resource
    droplet: _Resource
    droplets: list[_Resource]
    firewall: _Resource
    firewalls: list[_Resource]
    image: _Offer
    links: _Pages | None
    regions: list[_Offer]
    sizes: list[_Offer]
    tag: _Resource
    tags: list[_Resource]
    volume: _Resource
    volumes: list[_Resource]
    vpc: _Vpc
