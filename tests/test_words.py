"""The words that users read: plurals are made by one function, and a word that betrays a translation has its better one."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from provision.cli.explain_error import explanations
from provision.errors import counted

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "provision"
# What runs on a host has no module of ours to ask; the embedded clouds say what the real ones say.
MODULES = sorted(
    path for path in PACKAGE.rglob("*.py") if not {"_data", "probe", "onhost"} & set(path.parts) and path.parent.parent.name != "rehearsal"
)
# Evidence and the history are not rewritten.
PAGES = [ROOT / "README.md", *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "sources")]
PAGES += [
    *PACKAGE.rglob("templates/*.*"),
    *PACKAGE.rglob("data/*.yaml"),
    *(p for p in ROOT.glob("profiles/*.yml") if ".lock." not in p.name),
]

# --- words -----------------------------------------------------------------------------------------------------------

WORDS = {
    r"\bcatalogues?\b": "catalog",
    r"\bholds?(?=[.,;:!?)]|$| (?:for|now|and|or|together|whoever|whether)\b)": "is valid, matches, passes, applies",
    r"\b(?:not|should|would) hold\b(?! \d)|\bholds? (?:its|their) profile|\bprofile holds\b": "match, pass, apply",
    r"\black(?:s|ed)?\b": "does not have, is missing",
    r"(?<!-)\bstands?\b(?! (?:in )?for\b| out\b|-in)": "is",
    r"\b(?:is|are|was|were) told\b|\bnot tell\b|\btells (?:no|its|neither|the (?:image|loader))\b": "reports, shows",
    r"\bnobody (?:knows|could know)\b": "it is unknown",
    r"\bthe (?:least|most) (?:that|effort)\b": "minimum, maximum, easiest",
    r"\bof one's own\b|\ban own image\b": "custom",
    r"\bnarrower(?=:|<)": "to reduce it",
    r"\banew\b": "again",
    r"'s word (?:about|on)\b": "reports",
    r"\bknown of\b": "known about",
    r"\bcomplaints?\b": "errors",
    r"\b(?:keep|break)s? the rules\b": "follows, violates",
    r"\b(?:GPU|host|file|check|machine)\(s\)": "a plural by `counted`",
    r"\bsurprises\b|\bdearer\b|\bthere and back\b|\bspeaks? against\b": "caveats, higher, latency, rejected",
}
ALLOWED = {"{} what {} holds\n"}  # begins files that `catalog refresh` has written


def is_help(node: ast.AST) -> bool:
    """A function with a decorator in `cli` is a command, and its docstring the help."""
    return isinstance(node, ast.FunctionDef) and bool(node.decorator_list)


def messages(path: Path) -> Iterator[str]:
    """The sentences of a module that it may print: its strings but docstrings, and the help of its commands."""
    tree, unseen = ast.parse(path.read_text()), set()
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if isinstance(getattr(node, "body", None), list) else []:
            if isinstance(statement, ast.Expr) and not ("cli" in path.parts and is_help(node)):
                unseen.add(id(statement.value))
        if isinstance(node, ast.JoinedStr):  # one sentence, whatever is put into it
            unseen |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in unseen and " " in node.value:
            yield node.value


def shown(page: Path) -> Iterator[str]:
    """The lines of a page or template, without the names in its tags, and of YAML without comments and keys."""
    for line in page.read_text().splitlines():
        text = re.sub(r"{{.*?}}|{%.*?%}", "{}", line)
        yield re.sub(r"(?:^|\s)#.*|^\s*[\w-]+:|\[\w+\]", "", text) if page.suffix == ".yaml" else text


ANY = re.compile("|".join(f"(?:{word})" for word in WORDS), re.IGNORECASE)


def betrayed(text: str) -> list[str]:
    if not ANY.search(text):
        return []
    return [
        f"{found[0]!r} ({better}): {text.strip()[:160]}"
        for word, better in WORDS.items()
        if (found := re.search(word, text, re.IGNORECASE))
    ]


def test_what_users_read_is_english() -> None:
    read = [(path, text) for path in MODULES for text in messages(path)] + [(page, text) for page in PAGES for text in shown(page)]
    assert len(read) > 10_000
    assert [f"{path.relative_to(ROOT)}: {bad}" for path, text in read if text not in ALLOWED for bad in betrayed(text)] == []


def test_each_error_is_explained_by_what_it_means_its_cause_and_what_to_type() -> None:
    """Without a command of ours only what somebody else does, a wait, or the line of the message itself."""
    without = {code for code, each in explanations().items() if "`" not in each.do}
    assert without == {
        "organisation-policy",
        "host-keys-blocked",
        "account-refused",
        "machine-refused",
        "throttled",
        "disk-key-refused",
        "hosts-failed",
    }
    assert [code for code, each in explanations().items() if not re.search(r"[.,:;].{15}", each.means)] == []


# --- plurals ---------------------------------------------------------------------------------------------------------

COUNT = re.compile(
    r"(?:len|sum)\(.*|(?:.*\.)?(?:count|days|excused|grown|hosts|largest|members|most|number|required|size|total|unproven|wheels)"
)
# "0 of 1 GPUs" is a part of a whole, and stays.
PLURAL = re.compile(r" (?:[\w'-]+ )?(?!(?:is|has|was|as|its|this|does|asks|less|address)\b)[A-Za-z]+s\b")
NEVER_ONE = {
    *("bytes", "characters", "facts", "values", "times", "inotify instances"),  # sizes of what is too large or was cut off
    *("wheels", "certificates", "GPUs", "hosts", "hosts of", "days", "names"),  # where one has words of its own, or it is about several
}


def plurals(tree: ast.AST) -> Iterator[str]:
    """Each `{number} things` of an f-string that would print `1 things`. A branch that a comparison guards is no such text."""
    guarded = {id(branch) for node in ast.walk(tree) if isinstance(node, ast.IfExp) for branch in (node.body, node.orelse)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and id(node) not in guarded:
            for before, number, after in zip([None, *node.values], node.values, node.values[1:], strict=False):
                whole = isinstance(before, ast.Constant) and str(before.value).endswith(" of ")
                if isinstance(number, ast.FormattedValue) and isinstance(after, ast.Constant) and not whole:
                    found = PLURAL.match(str(after.value))
                    if found and COUNT.fullmatch(ast.unparse(number.value)) and found[0].strip() not in NEVER_ONE:
                        yield f"{ast.unparse(number.value)}{found[0]}"


def test_a_number_and_its_noun_are_joined_by_one_function() -> None:
    assert [counted(n, "check") for n in (0, 1, 2)] == ["0 checks", "1 check", "2 checks"]
    assert [counted(n, "check is", "checks are") for n in (1, 2)] == ["1 check is", "2 checks are"]
    found = {str(path.relative_to(ROOT)): list(plurals(ast.parse(path.read_text()))) for path in MODULES}
    assert {path: bad for path, bad in found.items() if bad} == {}


def test_such_words_are_seen() -> None:
    assert [len(betrayed(text)) for text in ("the lock holds.", "holds the lock", "a stand-in for it", "it lacks a key")] == [1, 0, 0, 1]
    assert list(plurals(ast.parse("f'copied {len(files)} files'"))) == ["len(files) files"]
    assert not list(plurals(ast.parse("f'{n} of {len(files)} files'")))
