"""`gpuprov explain-error`: the page of errors, which is installed with the package and is the only place that explains a code."""

import re
from typing import Final

import click

from provision import paths
from provision.cli import options, tables
from provision.errors import GpuprovError
from provision.report.base import inert
from provision.structs import Struct, asdict
from provision.workflow.session import Session

_SECTION: Final = re.compile(
    r"^### (?P<code>[a-z-]+)\n\nExit code (?P<exit_code>\d+)\. (?P<means>.+?)\n\n\*\*What to do:\*\* (?P<do>.+?)\n\n",
    re.MULTILINE | re.DOTALL,
)
_LINK: Final = re.compile(r"\[([^\]]+)\]\([^)]+\)")


class Explanation(Struct):
    """What the page says of one code.

    Attributes:
        code: as it stands in brackets after `error`.
        exit_code: of the process that ends with it.
        means: what has happened, in one paragraph.
        do: the way out, in one paragraph.
    """

    code: str
    exit_code: int
    means: str
    do: str


def explanations() -> dict[str, Explanation]:
    """Code → what the page says of it, in the page's order."""
    text = paths.text_of(paths.errors_page())
    found = (match.groupdict() for match in _SECTION.finditer(f"{text}\n"))
    said = ({name: " ".join(_LINK.sub(r"\1", words).split()) for name, words in each.items()} for each in found)
    return {each["code"]: Explanation(each["code"], int(each["exit_code"]), each["means"], each["do"]) for each in said}


@click.command("explain-error")
@click.argument("code", metavar="[CODE]", required=False, shell_complete=options.completing(__name__, "explanations"))
@options.as_json
def command(*, code: str | None, as_json: bool) -> None:
    """Say what an error means and what to do about it; without CODE list all codes.

    CODE is the word in brackets: quota-exceeded in `error[quota-exceeded]`. `error[quota-exceeded]` is understood, too. What a cloud said
    the last time is shown whole.
    """
    known = explanations()
    if code is None:
        rows = [(each.code, str(each.exit_code), each.means) for each in known.values()]
        shown = tables.table(("CODE", "EXIT", "MEANS"), rows, flows="MEANS")
        options.show([asdict(each) for each in known.values()], shown, as_json=as_json)
        return
    word = code.strip().removeprefix("error[").removesuffix("]")
    options.check_word(word, list(known), "error code")
    each = known[word]
    lines = [f"{word} (exit code {each.exit_code})", click.wrap_text(each.means, 100), "", click.wrap_text(f"What to do: {each.do}", 100)]
    try:
        last = Session.open().audit.last(word)
    except GpuprovError:
        last = None  # the page is read where nothing can be kept, too
    if last is not None:
        lines += ["", click.wrap_text(f"The last time here, {last.at}, `gpuprov {last.command}`: {inert(last.said, 2_000)}", 100)]
    data = {**asdict(each), "page": str(paths.errors_page()), "last": asdict(last) if last else None}
    options.show(data, *lines, as_json=as_json)
