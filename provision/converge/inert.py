"""Values that Ansible carries as data and never evaluates, whatever they look like."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def inert(value: Any) -> Any:
    """The same value with every string marked as not being a template.

    Variables from files count as the operator's own words for Ansible, so that `{{ … }}` in them would be evaluated. The mark is
    the one that Ansible's own JSON uses for what it received from elsewhere.
    """
    if isinstance(value, str):
        return {"__ansible_unsafe": value}
    if isinstance(value, Mapping):
        return {key: inert(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [inert(item) for item in value]
    return value


def document(variables: Mapping[str, Any]) -> str:
    """A variables file for `ansible-playbook -e @file` that holds data only."""
    return json.dumps({name: inert(value) for name, value in variables.items()}, indent=2)
