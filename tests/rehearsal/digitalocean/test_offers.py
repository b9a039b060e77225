"""Sizes, regions and images."""

from __future__ import annotations

from typing import Any

from provision.clouds.digitalocean import data
from tests.rehearsal.digitalocean.conftest import CPU, GPU, Ocean


def sizes(ocean: Ocean) -> dict[str, Any]:
    return {size["slug"]: size for size in ocean.get("sizes?per_page=200")["sizes"]}


def test_a_size_has_its_gpus_its_disks_and_its_price(ocean: Ocean) -> None:
    found = sizes(ocean)
    h100 = found[GPU]
    assert (h100["vcpus"], h100["memory"], h100["disk"], h100["price_hourly"], h100["price_monthly"]) == (20, 245_760, 720, 4.41, 3281.04)
    assert h100["gpu_info"] == {"count": 1, "model": "nvidia_h100", "vram": {"amount": 80, "unit": "gib"}}
    assert [(d["type"], d["size"]["amount"]) for d in h100["disk_info"]] == [("local", 720), ("scratch", 5120)]
    assert "gpu_info" not in found[CPU]
    assert {d["type"] for d in found["gpu-l40sx1-48gb"]["disk_info"]} == {"local"}
    assert {size["gpu_info"]["model"].split("_")[0] for size in found.values() if "gpu_info" in size} == {"nvidia", "amd"}


def test_regions_and_sizes_say_the_same(ocean: Ocean) -> None:
    by_region = {region["slug"]: set(region["sizes"]) for region in ocean.get("regions?per_page=200")["regions"]}
    for slug, size in sizes(ocean).items():
        assert {region for region, has in by_region.items() if slug in has} == set(size["regions"])


def test_an_account_without_access_sees_nvidias_sizes_in_no_region_and_gets_none(ocean: Ocean) -> None:
    ocean.set(do_gpu_access=False)
    found = sizes(ocean)
    assert (found[GPU]["available"], found[GPU]["regions"]) == (True, [])
    assert found["gpu-mi325x1-256gb"]["regions"] == ["nyc2", "tor1"]
    refused = ocean.create()
    assert (refused.status, refused.said) == (422, "Size is not available in this region.")
    assert ocean.create(size=CPU).status == 202


def test_where_a_size_is_sold_can_be_set(ocean: Ocean) -> None:
    ocean.set(do_size_regions={GPU: ["fra1"]})
    assert sizes(ocean)[GPU]["regions"] == ["fra1"]
    assert ocean.create(region="fra1").status == 202
    assert ocean.create().status == 422


def test_images_are_found_by_slug_number_and_kind(ocean: Ocean) -> None:
    image = ocean.get("images/gpu-h100x1-base")["image"]
    assert ocean.get(f"images/{image['id']}")["image"] == image
    assert ocean.call("GET", "images/nothing").status == 404
    slugs = {i["slug"] for i in ocean.get("images?type=distribution&per_page=200")["images"]}
    assert "ubuntu-24-04-x64" in slugs
    assert "gpu-h100x1-base" not in slugs
    assert "gpu-h100x1-base" in {i["slug"] for i in ocean.get("images?type=application&per_page=200")["images"]}
    assert ocean.get("images?private=true")["images"] == []
    assert ocean.get("images?tag_name=a")["images"] == []


def test_a_size_has_its_network_and_whole_dollars_without_a_fraction(ocean: Ocean) -> None:
    size = sizes(ocean)["s-2vcpu-4gb"]
    assert (size["price_monthly"], type(size["price_monthly"]), size["networking_throughput"]) == (24, int, 2000)


def test_an_image_that_is_larger_than_the_disk_is_refused(ocean: Ocean) -> None:
    ocean.set(do_images=[{"id": 99, "name": "mine", "distribution": "Ubuntu", "regions": ["tor1"], "min_disk_size": 60}])
    assert "disk" in ocean.create(size=CPU, image=99).said
    assert ocean.create(image=99).status == 202


def test_what_is_offered_of_nvidia_is_what_the_catalogue_says(ocean: Ocean) -> None:
    """The same figures stand in both: a size that only one of them corrects would be planned at another price than it is launched at."""
    shown = {slug: size for slug, size in sizes(ocean).items() if size.get("gpu_info", {}).get("model", "").startswith("nvidia")}
    assert shown.keys() == {record.slug for record in data.digitalocean().sizes}
    for slug, offered in shown.items():
        record, price = data.size(slug), data.price_of(slug)
        assert record is not None
        assert price is not None
        assert (offered["vcpus"], offered["memory"] // 1024, offered["disk"], offered["gpu_info"]["count"], sorted(offered["regions"])) == (
            record.vcpus,
            record.memory_gb,
            record.disk_gb,
            record.gpus,
            sorted(record.regions),
        )
        assert offered["price_hourly"] == price[0]
        assert sum(d["size"]["amount"] for d in offered["disk_info"] if d["type"] == "scratch") == record.scratch_gb
