"""Documents as data, changed by structure and written as text, then changed as text: what a clumsy or malicious author hands in."""

import copy
import json
import re
from collections.abc import Iterator
from typing import Any, Final
from xml.sax.saxutils import escape

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

Path = tuple[Any, ...]


class Raw(str):
    """A scalar that is written as it stands, without quotes."""

    __slots__ = ()


WORDS: Final = [
    *(
        "~",
        "null",
        "yes",
        "no",
        "on",
        "y",
        "True",
        "NaN",
        ".nan",
        ".inf",
        "-.Inf",
        "Infinity",
        "0x1F",
        "0o17",
        "017",
        "1:30",
        "1:59:59",
        "1_000",
    ),
    *("24.10", "1e999", "1e-999", "-0", "2026-02-31", "2026-11-21T00:00:00+99:99", "0001-01-01", "9999-12-31T23:59:59Z", "!!binary aGk="),
    *(
        "!!python/object/apply:os.getcwd []",
        "!!set {a}",
        "!!timestamp 2026-02-31",
        "!!int 0x",
        "!x y",
        "&a b",
        "*a",
        "{<<: {a: b}}",
        "<<",
        "[",
        "}",
    ),
    *(
        "@a",
        "`a",
        "%YAML 1.1",
        "--- a",
        "...",
        "? [a]",
        "|",
        ">-",
        "a: b: c",
        "- - - a",
        "#",
        '"\\x00"',
        '"\\e[31m"',
        '"\\ud800"',
        "'",
        "=",
        ":",
    ),
    *("9" * 19, "9" * 400, "9" * 5000, "0x" + "f" * 4000, ":".join(["59"] * 400), "1" + "e1" * 50, "-" * 3000, "[" * 3000, "{a: " * 900),
    *('{"a":' * 900, "1e400", "-1e400", "1.0e+", "٣", "²", "½"),
]
TEXTS: Final = [
    *(
        "",
        " ",
        "\n",
        "\t",
        "\x00",
        "\x1b[2J",
        "\x07",
        "\x7f",
        "\x9b31m",
        "\u2028",
        "\u202e",
        "\ufeff",
        "\ufffe",
        "\ud800",
        "é",
        "e\u0301",
        "\U0001f600",
    ),
    *(
        "../../etc/passwd",
        "/",
        "/dev/zero",
        "~root",
        "a/b",
        ".",
        "..",
        "-",
        "--",
        "-rf",
        "$(id)",
        "`id`",
        "${HOME}",
        "{{ 1 // 0 }}",
        "{% raw %}",
        "%s%n",
    ),
    *(
        "<script>alert(1)</script>",
        "]]>",
        "a\nb: c",
        "'; DROP",
        "auto",
        "latest",
        "localhost",
        "0.0.0.0/0",
        "::/0",
        "1.2.3.4/33",
        "fe80::1%eth0",
    ),
    *(
        "http://[::1",
        "https://a:99999/",
        "https://user:pw@host/",
        "file:///etc",
        "caller",
        "t4",
        "h100",
        "24.04",
        "580",
        "12.8",
        "x" * 300,
        "x" * 70_000,
    ),
    *(
        "a." * 3000,
        "*" * 200,
        "(" * 1000,
        "SHA256:",
        "ssh-ed25519 AAAA",
        "2026-02-31",
        "+99:99",
        "1.2.3.4.5.6",
        "99999999999999999999.1",
        "?",
        "nan",
    ),
]
NUMBERS: Final = [
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    2**64,
    10**30,
    0.0,
    -0.0,
    1e308,
    5e-324,
    0.1 + 0.2,
    float("inf"),
    float("nan"),
    65_536,
    1e18,
]
EMPTY: Final[list[Any]] = [None, True, False, [], {}, [[]], {"": None}, [None] * 400, {"a": {"b": {"c": {}}}}]


@st.composite
def values(draw: DrawFn) -> Any:
    """A value that no author should write."""
    kind = draw(st.integers(0, 9))
    if kind <= 2:
        return Raw(draw(st.sampled_from(WORDS)))
    if kind <= 4:
        return draw(st.sampled_from(TEXTS))
    if kind == 5:
        return draw(st.sampled_from(NUMBERS))
    if kind == 6:
        return copy.deepcopy(draw(st.sampled_from(EMPTY)))
    if kind == 7:
        return draw(st.text(max_size=40))
    if kind == 8:
        return draw(st.one_of(st.integers(), st.floats(), st.lists(st.integers(), max_size=3)))
    value: Any = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.sampled_from([2, 5, 13, 40, 150]))):
        value = [value] if draw(st.booleans()) else {"a": value}
    return value


# 3,000 times this is more than profiles, locks and facts may have. To repeat what is longer takes minutes, and gigabytes.
_MOST_TO_REPEAT: Final = 10_000


def places(tree: Any, at: Path = ()) -> Iterator[Path]:
    """Where every value of a document is."""
    yield at
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from places(value, (*at, key))
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from places(value, (*at, index))


def value_at(tree: Any, at: Path) -> Any:
    for step in at:
        tree = tree[step]
    return tree


@st.composite
def trees(draw: DrawFn, bases: list[Any], most: int = 3) -> Any:
    """One of the documents with up to so many changes."""
    tree = copy.deepcopy(draw(st.sampled_from(bases)))
    for _ in range(draw(st.integers(0, most))):
        change(draw, tree, copy.deepcopy(draw(st.sampled_from(bases))))
    return tree


def change(draw: DrawFn, tree: Any, other: Any) -> None:
    """Change a document in one place."""
    inside = [at for at in places(tree) if at]
    if not inside:
        return
    at = draw(st.sampled_from(inside))
    parent, key = value_at(tree, at[:-1]), at[-1]
    repeats = ["many", "long"] if len(repr(parent[key])) <= _MOST_TO_REPEAT else []
    kind = draw(st.sampled_from(["value", "value", "value", "drop", "graft", "graft", *repeats, "key", "rename", "near"]))
    if kind == "value":
        parent[key] = draw(values())
    elif kind == "drop":
        del parent[key]
    elif kind == "graft":
        parent[key] = copy.deepcopy(value_at(other, draw(st.sampled_from(list(places(other))))))
    elif kind == "many":
        parent[key] = [copy.deepcopy(parent[key])] * draw(st.sampled_from([2, 30, 300, 2500]))
    elif kind == "long":
        parent[key] = str(parent[key]) * draw(st.sampled_from([2, 50, 3000]))
    elif kind == "near" and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        parent[key] = draw(st.sampled_from([-parent[key], parent[key] + 1, parent[key] * 1000, str(parent[key]), [parent[key]]]))
    elif kind == "near":
        text = str(parent[key])
        where = draw(st.integers(0, len(text)))
        parent[key] = text[:where] + draw(st.sampled_from(TEXTS)) + text[where + draw(st.integers(0, 2)) :]
    elif isinstance(parent, dict):
        value = parent[key] if kind == "key" else parent.pop(key)
        parent[draw(st.one_of(st.sampled_from(TEXTS), st.sampled_from([k for path in inside for k in path if isinstance(k, str)])))] = value


def scalar(value: Any) -> str:
    return value if isinstance(value, Raw) else json.dumps(value)


def flow(value: Any) -> str:
    """JSON, but for raw scalars; it is YAML as well."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {flow(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(flow, value)) + "]"
    return scalar(value)


def block(value: Any, indent: int = 0) -> str:
    """YAML in lines."""
    pad = " " * indent
    if isinstance(value, dict) and value and indent < 60:
        return "".join(
            f"{pad}{key if isinstance(key, str) and key.isidentifier() else json.dumps(str(key))}:{after(each, indent)}"
            for key, each in value.items()
        )
    if isinstance(value, list) and value and indent < 60:
        return "".join(f"{pad}-{after(each, indent)}" for each in value)
    return f"{pad}{flow(value)}\n"


def after(value: Any, indent: int) -> str:
    nested = isinstance(value, dict | list) and value and indent < 60
    return f"\n{block(value, indent + 2)}" if nested else f" {flow(value)}\n"


BOMBS: Final = [
    b"",
    b"\x00" * 100,
    b"a: " + b"[" * 60_000,
    b"a: " + b"[" * 200_000,
    b"{a: " * 15_000,
    b"- " * 30_000,
    b"? " * 30_000,
    b"a:\n" + b"".join(b" " * n + b"- a:\n" for n in range(200)),
    b"a: &a [x,x]\n" + b"".join(b"b%d: &b%d [*a,*a,*a,*a]\n" % (n, n) for n in range(40)),
    b"&a [*a]",
    b"<<: [{a: 1}]\na: 2\n",
    b"\n".join(b"k%d: 1" % n for n in range(6000)),
    b"a: 1\n" * 9000,
    b"a: '" + b"\n" * 60_000 + b"'",
    b"[" * 60_000 + b"]" * 60_000,
    b'{"a":' * 60_000,
    b'{"schema": "gpuprov-facts/1", "gathered_at": "", "elapsed_s": 1, "facts": ' + b'{"a":' * 900 + b"1" + b"}" * 901,
    b"[" + b"1," * 60_000 + b"1]",
    b"9" * 60_000,
    b"%YAML 99999999999999999999.1\n--- a\n",
    b"%TAG ! tag:x,2000:\n--- !x a\n",
    b"--- a\n--- b\n",
    b"\xef\xbb\xbfschema: 1\n",
    "schema: 1\n".encode("utf-16"),
    "schema: 1\n".encode("utf-32"),
    b"schema: 1\xff\xfe\n",
    b"a: |9\n b\n",
    b"a: !!binary " + b"A" * 60_000,
    b"#" * 65_536,
    b"x" * (300 * 1024),
    b" " * (5 << 20),
]


@st.composite
def damaged(draw: DrawFn, content: bytes) -> bytes:
    """A text as an editor, a transfer or an attacker leaves it; most often as it is."""
    kind = draw(
        st.sampled_from(["whole"] * 6 + ["cut", "flip", "insert", "insert", "twice", "lost", "encoding", "crlf", "bom", "bomb", "bytes"])
    )
    start = draw(st.integers(0, len(content)))
    if kind == "whole":
        return content
    if kind == "cut":
        return content[:start]
    if kind == "flip":
        return content[:start] + bytes([draw(st.integers(0, 255))]) + content[start + 1 :]
    if kind == "insert":
        more = draw(st.one_of(st.sampled_from(WORDS), st.sampled_from(TEXTS))).encode("utf-8", "surrogatepass")
        start = content.rfind(b"\n", 0, start) + 1 if draw(st.booleans()) else start
        return content[:start] + more + content[start:]
    end = min(len(content), start + draw(st.sampled_from([1, 20, 400])))
    if kind == "twice":
        return content[:start] + content[start:end] * draw(st.sampled_from([2, 9, 200])) + content[end:]
    if kind == "lost":
        return content[:start] + content[end:]
    if kind == "encoding":
        return content.decode("utf-8", "replace").encode(draw(st.sampled_from(["utf-16", "utf-16-le", "utf-32", "utf-7", "utf-8-sig"])))
    if kind == "crlf":
        return content.replace(b"\n", draw(st.sampled_from([b"\r\n", b"\r", b"\x85", b"\xe2\x80\xa8"])))
    if kind == "bom":
        return b"\xef\xbb\xbf" + content
    return draw(st.binary(max_size=400)) if kind == "bytes" else draw(st.sampled_from(BOMBS))


@st.composite
def yaml_texts(draw: DrawFn, tree: Any) -> bytes:
    """A document as YAML, damaged perhaps."""
    text = block(tree) if draw(st.integers(0, 4)) else flow(tree)
    return draw(damaged(text.encode("utf-8", "surrogatepass")))


@st.composite
def json_texts(draw: DrawFn, tree: Any) -> bytes:
    """A document as JSON, damaged perhaps."""
    return draw(damaged(flow(tree).encode("utf-8", "surrogatepass")))


@st.composite
def xml_texts(draw: DrawFn, raw: bytes) -> bytes:
    """A document in XML with a text that nobody expects, an element less or an element again, damaged perhaps."""
    text = raw.decode()
    for _ in range(draw(st.integers(0, 3))):
        leaves = list(re.finditer(r"<(\w+)>([^<>]*)</\1>", text))
        if not leaves:
            break
        leaf = draw(st.sampled_from(leaves))
        kind = draw(st.sampled_from(["text", "text", "text", "text", "drop", "many"]))
        more = escape(str(draw(st.one_of(st.sampled_from(TEXTS), st.sampled_from(WORDS), st.sampled_from(NUMBERS), st.text(max_size=40)))))
        new = {"text": f"<{leaf[1]}>{more}</{leaf[1]}>", "drop": "", "many": leaf[0] * draw(st.sampled_from([2, 30, 2500]))}[kind]
        text = text[: leaf.start()] + new + text[leaf.end() :]
    return draw(damaged(text.encode("utf-8", "surrogatepass")))
