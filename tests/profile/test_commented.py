"""YAML with reasons: the values come back as they were, whatever they hold, and the reasons never become values."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from provision.profile.commented import Entry, document

HARD = ["a: b", "# no comment", "yes", "24.10", "1:30", "[x]", "{y", "- z", "two\nlines", "'\"\\", "*a", "&b", "!c", "|", "%", "", " x "]


@pytest.mark.parametrize("value", [*HARD, 1, 1.1, True, ["caller", "x: y"], []], ids=repr)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    text = document("heading", [Entry("key", value, "because"), Entry("next", 1)])
    assert yaml.safe_load(text) == {"key": value, "next": 1}


def test_blocks_and_items_stand_below_their_key_each_with_its_reason() -> None:
    item = (Entry("cloud", "x", "first"), Entry("where", ("a", "b")))
    text = document("What it is for.", [Entry("name", "n"), Entry("places", (item, item), "in order"), Entry("gpu", (Entry("count", 1),))])
    place = "  - cloud: x # first\n    where: [a, b]\n"
    assert text == f"---\n# What it is for.\nname: n\n\nplaces: # in order\n{place}{place}\ngpu:\n  count: 1\n"


def test_a_long_reason_stands_above_its_key_in_lines_that_are_all_comments() -> None:
    reason = "a word\nand " * 40
    text = document("heading " * 40, [Entry("block", ((Entry("key", 1, reason), Entry("other", 2)),))])
    lines = text.splitlines()
    assert max(map(len, lines)) <= 140
    assert yaml.safe_load(text) == {"block": [{"key": 1, "other": 2}]}
    assert " ".join(line.strip(" #-") for line in lines if "word" in line) == " ".join(reason.split())
