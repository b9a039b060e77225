"""Values that Ansible must not evaluate."""

from __future__ import annotations

import json

from provision.converge.inert import document, inert


def test_every_string_is_marked_at_any_depth_and_nothing_else_is() -> None:
    value = {"list": ["{{ x }}", 1], "tuple": ("a",), "on": True, "none": None}
    mark = {"__ansible_unsafe": "{{ x }}"}
    assert inert(value) == {"list": [mark, 1], "tuple": [{"__ansible_unsafe": "a"}], "on": True, "none": None}


def test_the_document_is_json_with_the_names_as_they_are() -> None:
    assert json.loads(document({"clocks_mode": "none"})) == {"clocks_mode": {"__ansible_unsafe": "none"}}
