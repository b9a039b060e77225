"""What MkDocs does beyond its own for `make docs`: pages get what is generated, and links that leave `docs/` on GitHub stay on the site.

A page of the reference has a marker, `<!-- generated: commands -->`. On GitHub it is not seen; here the text of `reference.py` replaces it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from docs.site import reference  # noqa: E402 - the line above makes it importable

_MARKER: Final = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)
_FENCE: Final = re.compile(r"^(```.*?^```)$", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add CONTRIBUTING.md, which stands above `docs/`, with its links as they are from there."""
    text = (ROOT / "CONTRIBUTING.md").read_text().replace("](docs/", "](")
    files.append(File.generated(config, "CONTRIBUTING.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its generated part, and with links that lead to where CONTRIBUTING.md is here."""
    text = _MARKER.sub(lambda found: reference.GENERATED[found[1]](), markdown)
    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _adapted(part) for part in parts)


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
