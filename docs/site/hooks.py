"""What MkDocs does beyond its own for `make docs`, so that pages which are made for GitHub are whole here, too.

The start page is the README, and the reference has its anchors. Links that leave `docs/` stay on the site. The version, and the address of
the repository once `[project.urls]` of pyproject.toml has one, stand on each page.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.site import reference  # noqa: E402 - the line above makes it importable

_FENCE: Final = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)
# A link to what is no page of the site, as a profile.
_LEAVES: Final = re.compile(r"\[([^\]]+)\]\((?!docs/[^)]*\.md|CONTRIBUTING\.md|\w+:|#)[^)]*\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The version below each page, and the repository above it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    config.copyright = f"gpuprov {project['version']}, {project['license']}"
    config.repo_url = project.get("urls", {}).get("Repository")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the two pages that stand above `docs/`, with their links as they are from there."""
    for source, page in {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md"}.items():
        text = _LEAVES.sub(r"\1", (ROOT / source).read_text())
        files.append(File.generated(config, page, content=re.sub(r'(\]\(|src="|srcset=")docs/', r"\1", text)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The page with its generated part, and with links that lead to where CONTRIBUTING.md is here."""
    name = page.file.src_uri.removeprefix("reference/").removesuffix(".md")
    parts = _FENCE.split(reference.written(name, for_site=True) if name in reference.GENERATED else markdown)
    return "".join(_block(part) if part.startswith("```") else _adapted(part) for part in parts)


def _block(part: str) -> str:
    """Code as a narrow window needs it: a comment stands above its command, and a drawing is marked, since it must not wrap."""
    if part.startswith("```sh\n"):
        return re.sub(r"^(\S.*?) +# (.+)$", r"# \2\n\1", part, flags=re.MULTILINE)
    return re.sub(r"\A```\n", "``` {.text .drawing}\n", part) if "──" in part or "─▶" in part else part


def _adapted(text: str) -> str:
    """Prose as this site needs it: Markdown here wants an empty line before a list, GitHub does not."""
    text = re.sub(r"\]\(((?:\.\./)*)\.\./CONTRIBUTING\.md", r"](\1CONTRIBUTING.md", text)
    return re.sub(r"^((?![-*] |\d+\. |\s|$).+)\n(?=[-*] |1\. )", r"\1\n\n", text, flags=re.MULTILINE)


# What the theme leaves out of its pages for people who use a keyboard or a screen reader: axe finds each of them.
_ACCESSIBLE: Final = (
    (re.compile(r'(<div class="md-search" [^>]*role="dialog")'), r'\1 aria-label="Search"'),
    # A long line of code is scrolled by keyboard, too.
    (re.compile(r"<pre\b(?![^>]*tabindex)"), '<pre tabindex="0"'),
    # The list of a part of the site has the name of the list around it.
    (re.compile(r'(<nav class="md-nav" data-md-level="1") aria-labelledby="__nav_(\d+)_label"'), r'\1 aria-label="Pages of part \2"'),
)


def on_post_page(output: str, **_: Any) -> str:
    """The page as everybody can use it."""
    return _accessible(output)


def on_post_template(output_content: str, template_name: str, **_: Any) -> str:
    """The page for addresses that do not exist, likewise."""
    return _accessible(output_content) if template_name.endswith(".html") else output_content


def _accessible(output: str) -> str:
    for pattern, instead in _ACCESSIBLE:
        output = pattern.sub(instead, output)
    return output
