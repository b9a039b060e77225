"""What `diff` takes for a host."""

from __future__ import annotations

import pytest

from provision.workflow.diff import is_host


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("t4-train", False),
        ("a/b.yml", False),
        ("x.lock.yaml", False),
        ("facts.json", True),
        ("gpu-1.example.com", True),
        ("localhost", True),
    ],
)
def test_a_host_is_neither_a_yaml_file_nor_a_profile(name: str, host: bool) -> None:  # noqa: FBT001 - pytest passes by name
    assert is_host(name) is host
