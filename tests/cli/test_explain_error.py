"""`gpuprov explain-error`, and the page behind it: every code of the source is on it, once, with its exit code."""

from __future__ import annotations

import ast
import functools
import importlib
import json
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from provision import paths
from provision.cli.explain_error import explanations
from provision.errors import GpuprovError
from tests.cli.conftest import Call

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "docs" / "reference" / "errors.md"


@functools.cache
def modules() -> tuple[tuple[str, ast.Module], ...]:
    files = sorted((ROOT / "provision").rglob("*.py"))
    return tuple((".".join(path.relative_to(ROOT).with_suffix("").parts), ast.parse(path.read_text())) for path in files)


def word(node: ast.expr) -> str:
    """The last word of a dotted name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def errors() -> dict[str, type[GpuprovError]]:
    """Every class of an error in the source: name → class."""
    defined = [(module, node) for module, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    known = {"GpuprovError"}
    while more := {node.name for _, node in defined if {word(base) for base in node.bases} & known} - known:
        known |= more
    return {node.name: getattr(importlib.import_module(module), node.name) for module, node in defined if node.name in known}


def test_every_code_has_its_place_on_the_page_and_the_page_has_no_other() -> None:
    codes = {kind.code: kind.exit_code for kind in errors().values() if kind is not GpuprovError}
    assert len(codes) > 50
    assert {code: each.exit_code for code, each in explanations().items()} == codes
    assert re.findall(r"^### (.+)$", PAGE.read_text(), re.MULTILINE) == list(explanations()), (
        "a section that cannot be read, or stands twice"
    )


def test_every_error_that_is_made_in_the_source_has_a_code_of_its_own() -> None:
    known = errors()
    made = {word(node.func) for _, tree in modules() for node in ast.walk(tree) if isinstance(node, ast.Call)} & set(known)
    assert len(made) > 40
    assert "GpuprovError" not in made
    assert {known[name].code for name in made} <= set(explanations())
    # A code that an object gets beside its class could not be found here.
    set_later = [
        node
        for _, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr == "code"
        and isinstance(node.ctx, ast.Store)
        and word(node.value) in {"error", "self"}
    ]
    assert [ast.unparse(node) for node in set_later if ast.unparse(node) != "self.code"] == []


@pytest.mark.parametrize("each", explanations().values(), ids=lambda each: each.code)
def test_it_says_what_it_means_and_a_way_out(call: Call, each: object) -> None:
    code, out, err = call("explain-error", each.code)  # type: ignore[attr-defined]
    assert (code, err) == (0, "")
    assert out.startswith(f"{each.code} (exit code {each.exit_code})\n")  # type: ignore[attr-defined]
    meaning, _, way_out = " ".join(out.split()).partition("What to do: ")
    assert each.means in meaning  # type: ignore[attr-defined]
    assert each.do in way_out  # type: ignore[attr-defined]
    assert paths.errors_page().is_file()
    assert str(paths.errors_page()) not in out, "where a package is installed helps nobody who reads its page"


def test_an_error_says_where_it_is_explained_and_that_command_works(call: Call) -> None:
    code, out, err = call("profile", "check", "no-such-profile", "--json")
    assert code == 2
    said = json.loads(out)["error"]["see"]
    assert err.splitlines()[-1] == f"see: {said}"
    code, out, _ = call(*said.split()[1:], "--json")
    assert code == 0
    assert json.loads(out)["code"] == "profile-not-found"


def test_the_page_is_in_the_wheel_and_in_the_source_that_a_wheel_is_built_from() -> None:
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    here = str(PAGE.relative_to(ROOT))
    assert hatch["wheel"]["force-include"][here] == f"provision/_data/{here}"
    assert f"/{here}" in hatch["sdist"]["include"]


def test_it_lists_all_and_takes_the_word_as_it_was_printed(call: Call) -> None:
    _, out, _ = call("explain-error", "--json")
    assert [each["code"] for each in json.loads(out)] == list(explanations())
    _, table, _ = call("explain-error")
    assert all(f"\n{code} " in table for code in explanations())
    assert call("explain-error", "error[throttled]") == call("explain-error", "throttled")
    code, _, err = call("explain-error", "quota")
    assert (code, "did you mean quota-exceeded?" in err) == (2, True)
