"""Which image a launch starts from where a place may start from one of ours, and what an image is made of today."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path
from typing import Any, cast

import pytest

from provision import __version__, paths
from provision.clouds import base
from provision.clouds.baked import BakedImage, BaseImage, Recipe
from provision.errors import CloudUnsupportedError, GpuprovError, ImageNotFoundError
from provision.launch.baked import CLEANING, bakery_of, found, image_for, recipe_of
from provision.launch.plan import draft_order
from provision.structs import replace
from tests.launch.memory import MemoryCloud
from tests.launch.test_plan import AWS, planned

RECIPE = Recipe("bk", "isa@example.org", "a" * 64, "b" * 64, "1.0, ansible-core 2.18, cleaning 1")
BASE = "ami-base"
BASES = {"g4dn.xlarge": BASE, "g4dn.2xlarge": "ami-other-base"}


class Bakery:
    """The images of one region, the newest first."""

    def __init__(self, *images: BakedImage) -> None:
        self.kept = images
        self.fails: GpuprovError | None = None

    def images(self, line: str | None = None) -> list[BakedImage]:
        return [image for image in self.kept if line in {None, image.line}]

    def base(self, order: base.Order) -> BaseImage:
        if self.fails:
            raise self.fails
        return BaseImage(BASES[order.instance_type])


class BakingCloud(MemoryCloud):
    """A region that has images of ours, or with None one that can have none."""

    def __init__(self, bakery: Bakery | None, region: str = "us-east-1") -> None:
        super().__init__(region)
        self.bakery = bakery


def image(recipe: Recipe = RECIPE, **changes: Any) -> BakedImage:
    """The image that a recipe makes of the base."""
    made: dict[str, Any] = {
        "id": "ami-1",
        "name": "gpuprov/bk/1",
        "line": recipe.line,
        "digest": recipe.digest(BASE),
        "cloud": "aws",
        "region": "us-east-1",
        "state": "available",
        "made_at": "2026-11-20T08:15:00+00:00",
        "size_gb": 200,
        "deprecated": False,
        "encrypted": True,
        "owner": recipe.owner,
        "parts": recipe.parts(BASE),
    }
    return BakedImage(**made | changes)


def cloud(*images: BakedImage) -> base.Cloud:
    return cast("base.Cloud", BakingCloud(Bakery(*images)))


BARREN = cast("base.Cloud", BakingCloud(None))


def order(use: str = "if-current", instance_type: str = "g4dn.xlarge") -> base.Order:
    made = planned({**AWS, "regions": ["us-east-1"], "instance_type": instance_type, "baked_image": use})
    return draft_order(made.profile, made.profile_sha256, made.name, made.places[0])


# --- what is current ----------------------------------------------------------------------------------------------------


OLDER = image(id="ami-2")
UNFIT = {
    "nothing": [],
    "pending": [image(state="pending")],
    "failed": [image(state="failed")],
    "replaced": [image(deprecated=True)],
    "another lock": [image(replace(RECIPE, lock="c" * 64))],
    "without GPU": [image(replace(RECIPE, scope="without-gpu"))],
    "another base": [image(digest=RECIPE.digest("ami-other-base"), parts=RECIPE.parts("ami-other-base"))],
    "another line": [image(line="other")],
}


@pytest.mark.parametrize("use", ["if-current", "required"])
@pytest.mark.parametrize(
    "images", [[image()], [image(), OLDER], [image(line="other", id="ami-3"), image()], [image(state="failed"), image()]]
)
def test_a_place_starts_from_the_newest_image_of_today_s_content_and_of_its_line(use: str, images: list[BakedImage]) -> None:
    told: list[str] = []
    assert image_for(cloud(*images), order(use), RECIPE, on_step=told.append) == "ami-1"
    (said,) = told
    assert all(word in said for word in ("ami-1", "2026-11-20", BASE))
    assert "2026-11-20T" not in said
    assert found(cloud(*images), order(use), RECIPE) == (image(), "")


def test_an_image_that_lost_the_tag_of_its_base_is_current_by_its_digest_all_the_same() -> None:
    told: list[str] = []
    assert image_for(cloud(image(parts={})), order("required"), RECIPE, on_step=told.append) == "ami-1"
    assert told[0].endswith(" from ?")


@pytest.mark.parametrize("images", UNFIT.values(), ids=UNFIT)
def test_without_a_current_image_a_place_starts_from_its_base_or_refuses_as_the_profile_says(images: list[BakedImage]) -> None:
    told: list[str] = []
    assert image_for(cloud(*images), order("if-current"), RECIPE, on_step=told.append) == ""
    (said,) = told
    assert all(word in said for word in ("bk", "us-east-1", found(cloud(*images), order(), RECIPE)[1]))
    with pytest.raises(ImageNotFoundError) as caught:
        image_for(cloud(*images), order("required"), RECIPE, on_step=told.append)
    assert all(word in caught.value.message for word in ("bk", "us-east-1"))
    assert "gpuprov bake make" in caught.value.hint
    assert len(told) == 1


@pytest.mark.parametrize("images", UNFIT.values(), ids=UNFIT)
def test_whoever_finds_no_image_learns_why(images: list[BakedImage]) -> None:
    none, why = found(cloud(*images), order(), RECIPE)
    assert none is None
    assert why


def test_the_base_is_that_of_the_order() -> None:
    other = image(id="ami-of-other", digest=RECIPE.digest("ami-other-base"), parts=RECIPE.parts("ami-other-base"))
    here = cloud(image(), other)
    for instance_type, wanted in (("g4dn.xlarge", "ami-1"), ("g4dn.2xlarge", "ami-of-other")):
        assert image_for(here, order("required", instance_type), RECIPE, on_step=lambda _: None) == wanted


@pytest.mark.parametrize(
    ("asked", "recipe"),
    [(order("never"), RECIPE), (order("required"), None), (order("if-current"), None), (replace(order(), place=None), RECIPE)],
)
def test_where_no_image_of_ours_may_be_none_is_looked_for(asked: base.Order, recipe: Recipe | None) -> None:
    told: list[str] = []
    assert image_for(cloud(image()), asked, recipe, on_step=told.append) == ""
    assert image_for(BARREN, asked, recipe, on_step=told.append) == ""
    assert told == []


def test_a_cloud_that_keeps_no_images_of_ours_is_refused_and_not_passed_over() -> None:
    for use in ("if-current", "required"):
        with pytest.raises(CloudUnsupportedError) as caught:
            image_for(BARREN, order(use), RECIPE, on_step=lambda _: None)
        assert caught.value.message
        assert "image:" in caught.value.hint
    assert bakery_of(cloud(image())).images("bk") == [image()]


@pytest.mark.parametrize("use", ["if-current", "required"])
def test_a_cloud_that_does_not_know_the_base_is_not_taken_for_one_without_an_image(use: str) -> None:
    bakery = Bakery(image())
    bakery.fails = ImageNotFoundError("no base", hint="x")
    with pytest.raises(ImageNotFoundError, match="no base"):
        image_for(cast("base.Cloud", BakingCloud(bakery)), order(use), RECIPE, on_step=lambda _: None)


# --- what an image is made of -------------------------------------------------------------------------------------------


@pytest.fixture
def roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the playbooks."""
    for name, content in (("site.yml", "a"), ("roles/b/main.yml", "b"), ("roles-c/main.yml", "c")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(paths, "playbooks_dir", lambda: tmp_path)
    return tmp_path


def digest() -> str:
    made = planned(AWS)
    return recipe_of(made.profile, made.lock, without_gpu=False).roles


@pytest.mark.usefixtures("roles")
def test_a_recipe_has_everything_that_decides_the_content() -> None:
    made = planned(AWS, name="mine")
    recipe = recipe_of(made.profile, made.lock, without_gpu=False)
    engine = f"{__version__}, ansible-core {metadata.version('ansible-core')}, cleaning {CLEANING}"
    assert recipe == Recipe("mine", made.profile.owner.email, made.lock.digest, digest(), engine, "whole")
    assert recipe_of(made.profile, made.lock, without_gpu=True) == replace(recipe, scope="without-gpu")


def test_the_digest_of_the_roles_is_of_all_names_and_contents_in_order(roles: Path) -> None:
    names = ("roles/b/main.yml", "roles-c/main.yml", "site.yml")  # as paths, and not as texts, sort
    lines = "".join(f"{name}\0{hashlib.sha256((roles / name).read_bytes()).hexdigest()}\n" for name in names)
    assert digest() == hashlib.sha256(lines.encode()).hexdigest()


def test_what_python_compiles_and_empty_folders_change_no_digest(roles: Path) -> None:
    before = digest()
    for folder in ("__pycache__", "roles/b/__pycache__/deeper", "empty"):
        (roles / folder).mkdir(parents=True)
    (roles / "__pycache__/x.pyc").write_text("x")
    (roles / "roles/b/__pycache__/deeper/x.pyc").write_text("x")
    assert digest() == before


@pytest.mark.parametrize("change", ["content", "name", "folder", "more", "less"])
def test_every_change_of_a_role_makes_older_images_stale(roles: Path, change: str) -> None:
    before, one = digest(), roles / "roles/b/main.yml"
    if change == "content":
        one.write_text("bb")
    elif change == "name":
        one.rename(one.with_name("other.yml"))
    elif change == "folder":
        one.rename(roles / "roles-c/other.yml")
    elif change == "more":
        (roles / "empty.yml").write_text("")
    else:
        one.unlink()
    assert digest() != before
