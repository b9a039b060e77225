"""The pages that strangers read: links lead somewhere, commands and options exist, examples hold, pictures are what was recorded."""

import importlib
import importlib.util
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from provision.cli import COMMANDS, cli
from provision.report import FORMATS

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = sorted([README, ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?:\]\(|srcset=\"|src=\")([^)\"\s]+)")
CITATION = re.compile(r"docs/sources/([a-z-]+\.md)(?:`?, \"([^\"]+)\")?((?:(?:,| and)? §[0-9A-Z][0-9a-z.]*[0-9a-z]?)*)")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def fences(path: Path, language: str) -> Iterator[str]:
    return (body for kind, body in FENCE.findall(path.read_text()) if kind == language)


def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text())


def headings(path: Path) -> set[str]:
    """The headings of a page, by their words and by their labels."""
    lines = [line.lstrip("# ").strip() for line in path.read_text().splitlines() if line.startswith("#")]
    return {re.sub(r"^(?:§\S+,? )+", "", line) for line in lines} | {
        label.strip(",") for line in lines for label in re.findall(r"§\S+", line)
    }


def test_every_line_of_the_threat_model_has_a_test_that_exists() -> None:
    rows = [line for line in (ROOT / "docs/reviewing/threat-model.md").read_text().splitlines() if line.startswith("| ")][2:]
    assert len(rows) > 10
    for row in rows:
        file, _, test = row.rsplit("`", 2)[1].partition("::")
        assert f"def {test}(" in (ROOT / file).read_text(), row


def test_readme_is_short() -> None:
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    assert [line for line in lines if len(line) > 100] == []


def test_readme_tells_the_two_commands_that_do_all_the_set_up() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [line.split()[:2] for body in fences(README, "sh") for line in body.splitlines() if line.startswith("make ")]
    assert commands == [["make", "demo"], ["make", "test"]]
    assert {target for _, target in commands} <= targets


def test_readme_begins_with_what_a_day_takes() -> None:
    first = next(fences(README, "sh"))
    assert [" ".join(line.split()[:3]) for line in first.splitlines()] == [
        "uv tool install",
        "gpuprov profile new",
        "gpuprov plan mine",
        "gpuprov up mine",
        "gpuprov ssh mine",
        "gpuprov down mine",
    ]


def test_readme_says_what_is_not_pinned_in_the_words_of_the_review(tmp_path: Path) -> None:
    quoted = re.findall(r"\"([^\"]+)\"", " ".join(prose(README).partition("The lock is the promise")[2].partition("## ")[0].split()))
    result = CliRunner().invoke(cli, ["review", "t4-train", "-o", str(tmp_path / "bundle")])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "bundle" / "review.md").read_text()
    assert len(quoted) == 2
    assert [words for words in quoted if words not in page] == []


def test_no_command_in_the_pages_relies_on_the_folders_of_sudo() -> None:
    """An installation by uv, pipx or pip is not in its `secure_path`."""
    assert [name(page) for page in PAGES if re.search(r"^sudo gpuprov", page.read_text(), re.MULTILINE)] == []


def test_the_changelog_of_the_first_release_is_one_screen() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    assert len(lines) <= 60, "what was never released has no fixes: say what the first release does"
    assert [line for line in lines if re.search(r"\bFixed\b|\bno longer\b|[Bb]efore, |; (?:it|that) was ", line)] == []


def test_pages_for_users_have_no_journal_of_measurements() -> None:
    """What was measured, and how, stands in docs/sources."""
    users = [page for page in PAGES if page.parent.name == "using"]
    assert [name(page) for page in users if "tests.bench" in page.read_text()] == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_page_has_a_path_or_kernel_of_the_machine_that_wrote_it(page: Path) -> None:
    assert re.findall(r"(?m)^page: /.*|kernel [\d.]+-fc\S*|\S*site-packages/provision\S*", page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(prose(page)) if "://" not in link and not link.startswith(("#", "mailto:"))]
    missing = [link for link in links if not (page.parent / link.partition("#")[0]).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_column_of_a_table_has_a_title(page: Path) -> None:
    """A reader of screens says it before each cell; axe refuses a page without (empty-table-header)."""
    lines = page.read_text().splitlines()
    heads = [line for line, rule in itertools.pairwise(lines) if re.fullmatch(r"\|[-:| ]+\|", rule)]
    assert [head for head in heads if not all(cell.strip() for cell in head.strip("|").split("|"))] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [README]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        targets = ((page.parent / link.partition("#")[0]).resolve() for link in LINK.findall(prose(page)) if "://" not in link)
        waiting += [target for target in targets if target.suffix == ".md" and target.exists()]
    assert set(PAGES) - reached == set()


def command_lines() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for body in fences(page, "sh"):
            lines = (re.sub(r'^sudo "\$\(command -v gpuprov\)" ', "gpuprov ", line) for line in body.splitlines())
            yield from ((name(page), line) for line in lines if line.startswith("gpuprov "))


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {"--help"}


@pytest.mark.parametrize(("page", "line"), list(command_lines()))
def test_every_command_in_the_pages_exists_with_its_options(page: str, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    words = words[: words.index(">")] if ">" in words else words
    command = importlib.import_module(f"provision.cli.{words[0].replace('-', '_')}").command
    rest = words[1:]
    while isinstance(command, click.Group):
        command, rest = command.commands[rest[0]], rest[1:]
    # What stands after the host of `ssh` is the command's own.
    unknown = [word for word in rest if word.startswith("-") and word not in options(command)]
    assert unknown == [], f"{page}: {line}"


def test_every_command_is_in_the_reference() -> None:
    named = re.findall(r"^\| `gpuprov ([a-z-]+)` \|", (ROOT / "docs/reference/commands.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(COMMANDS)


def test_every_format_is_in_the_reference() -> None:
    named = re.findall(r"^\| `([a-z]+)` \|", (ROOT / "docs/reference/report-formats.md").read_text(), re.MULTILINE)
    assert named == list(FORMATS)


def test_every_environment_variable_of_the_package_is_in_the_reference() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "provision").rglob("*.py"))
    read = set(re.findall(r"[\"'](GPUPROV_[A-Z_]+)[\"']", sources)) - {"GPUPROV_COMPLETE"}  # Click's, which `completion` sets
    assert read <= set(re.findall(r"`(GPUPROV_[A-Z_]+)", (ROOT / "docs/reference/environment.md").read_text()))


def test_the_example_profile_holds_and_has_twelve_lines(tmp_path: Path) -> None:
    (text,) = fences(README, "yaml")
    assert len(text.splitlines()) == 12
    file = tmp_path / "t4-small.yml"
    file.write_text(text)
    result = CliRunner().invoke(cli, ["profile", "check", str(file)])
    assert result.exit_code == 0, result.output


def test_the_example_rules_are_read_and_broken_by_a_profile_that_breaks_them(tmp_path: Path) -> None:
    (text,) = fences(ROOT / "docs/reviewing/rules.md", "yaml")
    rules = tmp_path / "rules.yml"
    rules.write_text(text)
    result = CliRunner().invoke(cli, ["policy", "check", "t4-train", "--policy", str(rules), "--json"])
    assert '"counters"' in result.stdout
    assert "see ticket SEC-12" in result.stdout


def test_the_picture_is_what_was_recorded_and_asks_no_other_host() -> None:
    spec = importlib.util.spec_from_file_location("make_picture", ROOT / "docs/pictures/make.py")
    assert spec
    assert spec.loader
    make = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make)
    for path, drawn in make.pictures().items():
        assert path.read_text() == drawn, "run `python docs/pictures/make.py --draw`"
        assert re.findall(r"https?://[^\"\s]+", drawn) == ["http://www.w3.org/2000/svg"]
        assert not re.search(r"@font-face|@import|url\((?!#)|<script|<image|href", drawn)


def test_every_citation_of_the_sources_leads_to_a_heading() -> None:
    here = Path(__file__)
    files = [
        p for folder in ("provision", "playbooks", "tests", "profiles") for p in (ROOT / folder).rglob("*") if p.is_file() and p != here
    ]
    missing = []
    for path in [*files, *PAGES, ROOT / "pyproject.toml", ROOT / "Makefile"]:
        if path.suffix not in {".py", ".yaml", ".yml", ".md", ".toml", ".sh", ""}:
            continue
        for page, heading, labels in CITATION.findall(path.read_text(errors="replace")):
            source = ROOT / "docs" / "sources" / page
            there = headings(source) if source.exists() else set()
            cited = [heading] * bool(heading) + [label.rstrip(".") for label in re.findall(r"§[\w.]+", labels)]
            if not source.exists() or not there.issuperset(cited):
                missing.append(f"{name(path)}: {page} {cited}")
    assert missing == []


def test_nothing_cites_what_readers_do_not_have() -> None:
    here = Path(__file__)
    pattern = re.compile("shared/" + "facts|clos" + "ing note|design" + " card")
    files = [p for folder in ("provision", "playbooks", "tests", "profiles", "docs") for p in (ROOT / folder).rglob("*") if p.is_file()]
    texts = [p for p in files if p.suffix in {".py", ".yaml", ".yml", ".md", ".sh", ".j2"} and p != here]
    assert [name(p) for p in [*texts, README, ROOT / "pyproject.toml"] if pattern.search(p.read_text(errors="replace"))] == []
