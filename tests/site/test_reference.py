"""Both sides are counted: everything that exists has its place in the reference, and the reference has nothing else."""

from __future__ import annotations

import html
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from docs.site import cases, checks, keys, reference
from provision.cli import COMMANDS, cli
from provision.cli.explain_error import explanations
from provision.profile.model import Profile
from provision.verify.checks import CHECKS

ROOT = Path(__file__).parents[2]


def text(part: str) -> str:
    """What a reader sees of a part of a page."""
    return html.unescape(re.sub(r"<[^>]+>", "", part))


def sections(page: Path) -> dict[str, str]:
    """What stands under each third heading of a page: the words of the heading → HTML up to the next heading."""
    parts = re.split(r"<h([23]) id=\"[^\"]*\">(.*?)</h[23]>", page.read_text().split("<article", 1)[1].split("</article>", 1)[0])
    found = list(zip(parts[1::3], parts[2::3], parts[3::3], strict=True))
    names = [text(re.sub(r"<a class=\"headerlink\".*?</a>", "", heading)) for level, heading, _ in found if level == "3"]
    assert len(names) == len(set(names)), "a heading stands twice"
    return dict(zip(names, [below for level, _, below in found if level == "3"], strict=True))


@pytest.mark.parametrize("name", reference.GENERATED)
def test_the_committed_page_is_what_the_package_says(name: str) -> None:
    """Whoever reads it on GitHub has built no site. In a process of its own: Click keeps the option `--help` as a test first met it."""
    page = (ROOT / "docs" / "reference" / f"{name}.md").read_text()
    program = f"import sys; from docs.site import reference; sys.stdout.write(reference.written({name!r}))"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, cwd=ROOT).stdout.decode()
    assert page == said, "python -m docs.site.reference --write"
    assert len(page.splitlines()) > 1000
    assert not re.search(r"\{#|`[^`\n]*(?<!\\)\|[^`\n]*` \|", page), "GitHub shows an anchor as words, and ends a cell at a bar"


def walk(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    """Every command, asked of the modules themselves."""
    yield name, command
    for below, each in command.commands.items() if isinstance(command, click.Group) else ():
        yield from walk(f"{name} {below}", each)


def existing() -> dict[str, click.Command]:
    found: dict[str, click.Command] = {"gpuprov": cli}
    for name in COMMANDS:
        found |= dict(walk(f"gpuprov {name}", importlib.import_module(f"provision.cli.{name.replace('-', '_')}").command))
    return found


def test_every_command_with_each_of_its_options_and_arguments(site: Path) -> None:
    shown = sections(site / "reference" / "commands.html")
    commands = existing()
    assert sorted(shown) == sorted(commands)
    counted = 0
    for name, command in commands.items():
        rows = [text(row) for row in re.findall(r"<tr>\s*<td>(.*?)</td>", shown[name], re.DOTALL)]
        listed = {word for row in rows for word in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", row)}
        options = {o for p in command.params if isinstance(p, click.Option) and not p.hidden for o in (*p.opts, *p.secondary_opts)}
        assert listed >= options, name
        assert listed - options <= {"--help", "-h", "--color", "-v", "--verbose"}, name
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        assert len(rows) - len([row for row in rows if re.match(r"--?\w", row)]) == len(arguments), name
        assert all(row.strip() for row in rows), name
        counted += len(options) + len(arguments)
    assert counted > 250


def schema_keys() -> set[str]:
    """The keys of the schema, walked here by themselves: dotted, with the cloud before those of a place."""
    schema = Profile.model_json_schema(by_alias=True)
    found: set[str] = set()

    def below(node: dict[str, Any], path: str, cloud: str) -> None:
        part = schema["$defs"][node["$ref"].rpartition("/")[2]] if "$ref" in node else node
        own = part.get("properties", {}).get("cloud", {}).get("const", "") if path == "places[]" else ""
        for key, value in part.get("properties", {}).items():
            whole = f"{path}.{key}" if path else key
            found.add(f"{whole} ({own or cloud})" if own or cloud else whole)
            below(value, whole, own or cloud)
        for word in ("anyOf", "oneOf"):
            for each in part.get(word, ()):
                below(each, path, cloud)
        if "items" in part:
            below(part["items"], f"{path}[]", cloud)

    below(schema, "", "")
    return found


def test_every_key_of_a_profile_with_what_it_takes_and_an_example(site: Path) -> None:
    shown = sections(site / "reference" / "profile.html")
    assert set(shown) == schema_keys()
    assert len(shown) > 140
    for name, below in shown.items():
        said = text(below)
        key = name.split(" ")[0].rpartition(".")[2].removesuffix("[]")
        assert all(word in said for word in ("Takes:", "Default:", f"Example: {key}:")), name
        assert re.search(r"\w[.!]\n", said.split("Takes:")[0] + "\n"), f"{name} says why in a sentence"
        assert ("Unit:" in said) == bool(re.search(r"_(gb|h|mhz|usd|days)$", key)), name


def test_every_check_with_what_it_observes_how_it_can_fail_and_what_fixes_it(site: Path) -> None:
    shown = sections(site / "reference" / "checks.html")
    assert list(shown) == [check.id for check in CHECKS]
    for check in CHECKS:
        said = text(shown[check.id])
        findings, read = checks.endings(check.id)
        assert read, f"{check.id} reads no fact"
        assert all(name in said for name in read), check.id
        bad = [each for each in findings if each.outcome in {"fail", "warn"}]
        assert bad, f"{check.id} has no case in which it does not hold"
        assert re.search(r"<td>(fail|warn)</td>", shown[check.id]), check.id
        assert (f"--role {check.role}" in said) == (check.role is not None), check.id


def test_the_cases_of_the_checks_that_fill_the_page_are_those_of_their_tests() -> None:
    assert {name for name, _ in cases.cases()} == {check.id for check in CHECKS}
    assert len(cases.cases()) > 800


def test_every_error_code(site: Path) -> None:
    assert list(sections(site / "reference" / "errors.html")) == list(explanations())


@pytest.mark.parametrize("key", keys.keys(), ids=lambda key: key.anchor)
def test_an_anchor_of_a_key_is_its_name(site: Path, key: keys.Key) -> None:
    assert f'id="{key.anchor}"' in (site / "reference" / "profile.html").read_text()


def test_pages_stay_readable_without_the_site() -> None:
    """A marker of what is generated is a comment, alone on its line; GitHub shows nothing of it."""
    pages = [path.read_text() for path in (ROOT / "docs").rglob("*.md")]
    markers = [line for page in pages for line in page.splitlines() if "generated:" in line]
    assert sorted(markers) == [f"<!-- generated: {name} -->" for name in ("checks", "commands", "profile")]
