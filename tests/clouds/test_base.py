"""What others can write at a cloud, and what of it an instance takes."""

from __future__ import annotations

import pytest

from provision.clouds.base import COUNT_TAG, Instance, count_of, parsed_deadline
from provision.clouds.gcp import answers
from tests.launch.memory import machine


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("login", "debian\n  ProxyCommand x"),
        ("login", "Debian"),
        ("login", "a" * 33),
        ("login", "ubuntu\n"),
        ("address", "10.0.0.7\nUser x"),
        ("address", "evil.example"),
        ("address", "fe80::1%eth0\n  ProxyCommand x"),
        ("address", "fe80::1%$(id)"),
        ("deadline", "2026-11-27T08:06:24"),
        ("deadline", "9999-12-31T23:59:59-23:59"),
        ("group", "../x"),
        ("group", "A" * 300),
        ("region", "us-east-1\n"),
        ("zone", "../../x"),
        ("type", "g4dn.xlarge; id"),
        ("type", "\x1b[2J"),
        ("profile", "t4\u202etrain"),
    ],
)
def test_a_field_that_cannot_be_what_it_should_be_is_empty_and_named(field: str, text: str) -> None:
    odd = machine("train", **{field: text})
    assert (getattr(odd, field), odd.odd) == ("", (field,))


def test_what_fits_is_kept() -> None:
    good = machine("train", login="ada.l-1_x", address="2001:db8::7", type="g4dn.12xlarge", deadline="2026-11-27T08:06:24+00:00")
    assert isinstance(good, Instance)
    assert (good.login, good.address, good.deadline, good.odd) == ("ada.l-1_x", "2001:db8::7", "2026-11-27T08:06:24+00:00", ())


def test_a_deadline_is_a_moment_with_an_offset() -> None:
    moment = parsed_deadline("2026-11-27T10:06:24+02:00")
    assert moment is not None
    assert moment.isoformat() == "2026-11-27T08:06:24+00:00"
    assert [parsed_deadline(text) for text in ("", "soon", "2026-11-27", "0001-01-01T00:00:00+23:59")] == [None] * 4


@pytest.mark.parametrize("text", ["[" * 100_000, "not JSON", "[]", '"x"'])
def test_a_description_that_is_none_of_ours_has_no_tags(text: str) -> None:
    assert answers._strings(text) == {}


def test_a_machine_whose_own_name_is_none_has_none() -> None:
    """On EC2 it follows from a tag, at DigitalOcean it is what the droplet is called."""
    for name in ("../../x", "x\n", "Host *", "a" * 300):
        odd = machine(name, group="train")
        assert (odd.name, odd.group, odd.odd) == ("?", "train", ("name",))
    assert machine("train-12", group="train").odd == ()


@pytest.mark.parametrize("text", ["9" * 5000, "9" * 30, "-1", "", "two", "٣"])
def test_a_count_that_no_launch_can_have_counts_as_one(text: str) -> None:
    assert count_of({COUNT_TAG: text}) == 1
    assert count_of({COUNT_TAG: "12"}) == 12
