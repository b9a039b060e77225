"""Jinja, set up once for pages and Markdown: an undefined name is an error, and the lines of tags leave no trace."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined


def environment(folder: Path, *, autoescape: bool = True) -> Environment:
    """An environment for the templates in a folder; escaping for HTML unless told otherwise."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=autoescape,  # noqa: S701 - off for Markdown, which escapes in its own filters
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
