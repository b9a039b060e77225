"""The pages of a bundle: the same each time, and with the rules of the organisation."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from provision.cli import cli
from provision.profile import load, lockfile
from provision.review import bundle, pages
from provision.review.content import content

from .examples import HOSTILE, TODAY, hostile, shipped
from .test_page import Parsed


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_text_is_text_in_json(kind: str) -> None:
    found = content(*hostile(HOSTILE[kind]))
    assert json.loads(bundle.canonical(found.as_dict()))["purpose"] == HOSTILE[kind]


@pytest.mark.parametrize("kind", ["html", "attribute", "markdown", "jinja", "shell", "hebrew"])
def test_through_the_front_door(tmp_path: Path, kind: str) -> None:
    """What the model lets in as free text comes out of the bundle as it went in."""
    document = yaml.safe_load(load.find("t4-train").read_text())
    document["purpose"], document["owner"]["name"] = HOSTILE[kind], HOSTILE[kind]
    path = tmp_path / "wild.yml"
    path.write_text(yaml.safe_dump(document, allow_unicode=True))
    done = CliRunner().invoke(cli, ["review", str(path), "-o", str(tmp_path / "wild.bundle.zip")])
    assert done.exit_code == 0, done.output
    read = bundle.read(tmp_path / "wild.bundle.zip")
    assert read.profile.purpose == HOSTILE[kind]
    assert not [tag for tag, _ in Parsed(read.files["review.html"].decode()).found if tag in {"img", "iframe", "object"}]


def test_a_bundle_is_the_same_as_folder_and_as_file_and_each_time(tmp_path: Path) -> None:
    digests = []
    for name in ("a.bundle", "b.bundle.zip", "c.bundle.zip"):
        done = CliRunner().invoke(cli, ["review", "t4-train", "-o", str(tmp_path / name), "--json"])
        assert done.exit_code == 0, done.output
        digests.append(json.loads(done.stdout)["sha256"])
    assert len(set(digests)) == 1
    assert (tmp_path / "b.bundle.zip").read_bytes() == (tmp_path / "c.bundle.zip").read_bytes()
    read = bundle.read(tmp_path / "a.bundle")
    assert set(read.files) == {"profile.yml", "lock.yml", "review.html", "review.md", "review.json"}
    assert read.files["profile.yml"] == shipped("t4-train")[2]
    assert lockfile.parse(read.files["lock.yml"].decode(), "lock.yml") == shipped("t4-train")[1]


def test_the_organisations_rules_are_judged_and_travel_along(tmp_path: Path) -> None:
    rules, out = tmp_path / "rules.yml", tmp_path / "t4.bundle"
    told = {}
    for name, hours in (("strict", 6), ("kind", 24)):
        rules.write_text(f"schema: 1\nname: isa-rules\nmax_deadline_h: {hours}\n")
        done = CliRunner().invoke(cli, ["review", "t4-train", "-o", str(out), "--policy", str(rules), "--json"])
        assert done.exit_code == 0, done.output
        told[name] = json.loads(done.stdout)["review"]
        assert bundle.read(out).files["policy.yml"] == rules.read_bytes()
    [broken] = [risk for risk in told["strict"]["risks"] if risk["id"] == "against-rules"]
    assert (broken["severity"], broken["key"]) == ("high", "limits.deadline_h")
    assert "deadline_h: 12" in told["strict"]["text"][broken["line"] - 1]
    assert told["strict"]["risks"][0] == broken
    assert "The rules are kept" in [gain["title"] for gain in told["kind"]["gains"]]
    assert told["kind"]["rules_sha256"] == bundle.read(out).statement.policy.sha256  # type: ignore[union-attr] # there is one


def test_what_a_lock_would_hold_differently_leaves_out_image_ids_and_the_catalogues_date() -> None:
    profile, lock, _ = shipped("t4-train")
    place = lock.places[0].model_copy(update={"image_id": "ami-0123456789abcdef0"})
    assert pages.differs(profile, lock.model_copy(update={"places": (place, *lock.places[1:]), "catalogue": "2020-01-01"}), TODAY) == []
    driver = lock.driver.model_copy(update={"branch": ".image_id: 1"})
    assert pages.differs(profile, lock.model_copy(update={"driver": driver}), TODAY) == ["driver.branch: .image_id: 1 → 595"]
