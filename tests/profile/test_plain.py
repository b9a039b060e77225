"""Plain YAML: what is refused before anything is expanded, and what an unquoted value means."""

from __future__ import annotations

import math

import pytest
import yaml

from provision.profile import plain

BOUNDS = plain.Bounds(size=64 * 1024, depth=12, nodes=5_000)


@pytest.fixture(autouse=True, params=[yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)], ids=["python", "libyaml"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build of PyYAML without libyaml says the same."""
    monkeypatch.setattr(plain, "LOADER", request.param)


def read(text: str) -> plain.PlainFile:
    return plain.read(text.encode(), BOUNDS, "profile")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("0x1f", 31),
        ("0.50", 0.5),
        (".5", 0.5),
        ("1.5e+3", 1500.0),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("text", "text"),
        ("2026-12-31", "2026-12-31"),
        ("2026-02-31", "2026-02-31"),
        ("24.04.1", "24.04.1"),
        ("1:30:x", "1:30:x"),
    ],
)
def test_an_unquoted_value_has_the_meaning_of_yaml_1_2(text: str, value: object) -> None:
    file = read(f"a: {text}\n")
    assert file.complaints == []
    assert file.data == {"a": value}
    assert type(file.data["a"]) is type(value)
    assert file.texts[("a",)] == text


def test_infinity_and_nan_are_numbers() -> None:
    data = read("a: .inf\nb: -.Inf\nc: .nan\n").data
    assert (data["a"], data["b"]) == (math.inf, -math.inf)
    assert math.isnan(data["c"])


@pytest.mark.parametrize(
    "text", ["1:30", "010", "yes", "No", "on", "OFF", "1_000", "0b11", "0o17", "1e3", "1:59:59", "190:20:30.15", "1_0.5"]
)
def test_a_value_that_the_two_versions_of_yaml_read_differently_is_refused_with_its_text(text: str) -> None:
    (complaint,) = read(f"x: 1\na: {text}\n").complaints
    assert (complaint.line, complaint.key) == (2, "a")
    assert f"cannot be {text}, which YAML 1.1 and YAML 1.2 read as two values" in complaint.problem
    assert f'"{text}"' in complaint.instead
    quoted = read(f'a: "{text}"\n')
    assert (quoted.data, quoted.complaints) == ({"a": text}, [])


@pytest.mark.parametrize("text", ["9" * 19, "0x" + "f" * 4000, "1" + ":59" * 400, "9" * 5000])
def test_a_number_of_many_digits_is_a_complaint_or_text(text: str) -> None:
    file = read(f"a: {text}\n")
    assert file.complaints or file.data == {"a": text}


@pytest.mark.parametrize("raw", [b"a: \xff\n", b"a: 1\nb: \x00\n", "ä: ü\nö: \x01\n".encode(), b"a: 1\nb: 2\nc: \xfe\xff\n"])
def test_bytes_that_are_no_text_are_a_complaint_at_their_line(raw: bytes) -> None:
    (complaint,) = plain.read(raw, BOUNDS, "profile").complaints
    assert "UTF-8" in complaint.instead
    assert complaint.line == raw.count(b"\n")


def test_a_file_in_utf_16_is_refused() -> None:
    (complaint,) = plain.read("a: 1\n".encode("utf-16"), BOUNDS, "profile").complaints
    assert "UTF-8" in complaint.instead


def test_nesting_and_aliases_are_seen_before_anything_is_built() -> None:
    deep = plain.foreign("a: " + "[" * 60_000, BOUNDS, "lock")
    bomb = plain.foreign("a: &a [1, 1]\nb: [*a, *a]\n", BOUNDS, "lock")
    assert deep is not None
    assert "nested more than 12 deep" in deep.problem
    assert bomb is not None
    assert "anchor" in bomb.problem
