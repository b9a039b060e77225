"""Values that Ansible carries as data and never evaluates, whatever they look like."""

import json
from collections.abc import Mapping, Sequence
from typing import Any


def inert(value: Any) -> Any:
    """The same value with a mark on every string that says it is not a template.

    Ansible trusts variables from files as the operator's own words and would evaluate `{{ … }}` in them. The mark is the one that Ansible's
    own JSON uses for text from elsewhere.
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
    return json.dumps(inert(variables), indent=2)
