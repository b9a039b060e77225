"""The kinds of cases: which files, and which words of the command line read them."""

import contextlib
import datetime as dt
import functools
import io
import json
import stat
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from provision import canonical, paths
from provision.report import FORMATS
from provision.review import bundle, sign
from provision.verify import evidence as proof
from tests.clouds import portal
from tests.fuzz import answers
from tests.fuzz.hostile import TEXTS, damaged, json_texts, trees, xml_texts, yaml_texts
from tests.fuzz.run import Case, Odd
from tests.review.samples import POLICY, People, restated, small
from tests.verify import good

RULES: Final = yaml.safe_load("""
schema: 1
name: isa-rules
contact: isa@example.com
clouds: [aws, gcp]
regions: ["ap-*", "asia-*", "us-*", "europe-*"]
max_price_per_hour_usd: 2.5
max_deadline_h: 24
ssh_from: {widest_ipv4: 24, widest_ipv6: 64, caller: true}
forbidden: {packages: [emacs*], frameworks: [jax]}
owner_domains: [example.com]
max_waiver_days: 30
signatures: {required: 2, principals: [alice@example.com, bob@example.com], max_age_days: 30}
""")
SHIPPED: Final = {path.name: path.read_bytes() for path in sorted(paths.profiles_dir().glob("*.yml"))}
PROFILES: Final = [yaml.safe_load(raw) for name, raw in SHIPPED.items() if ".lock." not in name]
LOCKS: Final = [yaml.safe_load(raw) for name, raw in SHIPPED.items() if name.endswith(".lock.yml")]
T4: Final = {"p.yml": SHIPPED["t4-train.yml"], "p.lock.yml": SHIPPED["t4-train.lock.yml"]}
FACTS: Final = [
    {"schema": "gpuprov-facts/1", "gathered_at": "2026-11-21T00:00:00Z", "elapsed_s": 1, "facts": raw}
    for raw in [{key: {"value": value} for key, value in good.GOOD.items()}]
] + [json.loads(path.read_bytes()) for path in sorted(good.RECORDED.glob("*.json"))]
GOOD_FACTS: Final = json.dumps(FACTS[0]).encode()


@dataclass(frozen=True)
class Desk:
    """What is made once: a bundle with two signatures, who may sign, and evidence about a host."""

    bundle: dict[str, bytes]
    signers: bytes
    key: str
    evidence: Any


@functools.cache
def desk() -> Desk:
    now = dt.datetime.now(dt.UTC)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        people = People.make(folder / "isa")
        path = folder / "b"
        bundle.write(path, small(POLICY))
        for who in (people.alice, people.bob):
            sign.sign(bundle.read(path), key=who, principal=f"{who.name}@example.com", days=3000, now=now)
        files = {each.relative_to(path).as_posix(): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}
        return Desk(files, people.signers.read_bytes(), people.mallory.with_suffix(".pub").read_text().split()[1], None)


ODD: Final = st.sampled_from(list(Odd))


def file_or_odd(content: SearchStrategy[bytes]) -> SearchStrategy[bytes | Odd]:
    """Content, and now and then something that is not a file."""
    return st.integers(0, 39).flatmap(lambda n: ODD if n == 0 else content)


def contents(draw: DrawFn, strategy: SearchStrategy[bytes]) -> bytes | Odd:
    return draw(file_or_odd(strategy))


@st.composite
def profiles(draw: DrawFn) -> Case:
    tree = draw(trees(PROFILES))
    files = {"p.yml": contents(draw, yaml_texts(tree))}
    words = draw(
        st.sampled_from(
            [
                *[("profile", "check", "p.yml")] * 3,
                *[("profile", "show", "p.yml"), ("profile", "show", "p.yml", "--json"), ("lock", "p.yml", "-o", "-"), ("explain", "p.yml")],
                *[
                    ("plan", "--profile", "p.yml"),
                    ("profile", "check", "p.yml", "--json", "--strict"),
                    ("render", "p.yml", "--format", "runbook"),
                ],
                *[("policy", "check", "p.yml", "--policy", "rules.yml"), ("review", "p.yml", "-o", "out.zip"), ("profile", "list")],
                *[("diff", "p.yml", "t4.lock.yml"), ("verify", "--facts", "f.json", "-p", "p.yml")],
            ]
        )
    )
    more = {"rules.yml": POLICY, "t4.lock.yml": SHIPPED["t4-train.lock.yml"], "f.json": GOOD_FACTS}
    if words == ("profile", "list"):
        files = {"profiles/p.yml": files["p.yml"]}
    return Case("profile", words, {**files, **{name: data for name, data in more.items() if name in words}})


@st.composite
def locks(draw: DrawFn) -> Case:
    tree = draw(trees(LOCKS))
    if isinstance(tree, dict) and draw(st.booleans()):  # as a careful forger leaves it
        tree.pop("sha256", None)
        try:
            tree["sha256"] = canonical.digest(tree)
        except (TypeError, ValueError):
            tree["sha256"] = "0" * 64
    words = draw(
        st.sampled_from(
            [
                *[
                    ("lock", "--check", "p.yml"),
                    ("explain", "p.yml"),
                    ("diff", "p.lock.yml", "t4.lock.yml"),
                    ("diff", "t4.lock.yml", "p.lock.yml"),
                ],
                *[
                    ("policy", "check", "p.yml", "--policy", "rules.yml"),
                    ("review", "p.yml", "-o", "out.zip"),
                    ("plan", "--profile", "p.yml"),
                ],
                *[("review", "p.yml", "--against", "p.lock.yml"), ("verify", "--facts", "f.json", "-p", "p.yml")],
            ]
        )
    )
    more = {"rules.yml": POLICY, "t4.lock.yml": SHIPPED["t4-train.lock.yml"], "f.json": GOOD_FACTS}
    files = {"p.yml": T4["p.yml"], "p.lock.yml": contents(draw, yaml_texts(tree))}
    return Case("lock", words, {**files, **{name: data for name, data in more.items() if name in words}})


@st.composite
def policies(draw: DrawFn) -> Case:
    raw = contents(draw, yaml_texts(draw(trees([RULES]))))
    words = draw(
        st.sampled_from(
            [
                *[("policy", "check", "p.yml", "--policy", "rules.yml")] * 4,
                *[
                    ("policy", "check", "p.yml", "--policy", "rules.yml", "--json"),
                    ("review", "p.yml", "-o", "out", "--policy", "rules.yml"),
                ],
                ("verify-signature", "b.zip", "--policy", "rules.yml", "--signers", "signers"),
            ]
        )
    )
    more: dict[str, bytes | Odd] = {"b.zip": bundle.pack(desk().bundle), "signers": desk().signers} if "b.zip" in words else {**T4}
    return Case("policy", words, {**more, "rules.yml": raw})


@st.composite
def facts(draw: DrawFn) -> Case:
    raw = contents(draw, json_texts(draw(trees(FACTS, 5))))
    words = draw(
        st.sampled_from(
            [
                *[("verify", "--facts", "f.json", "-p", "p.yml", "--format", form) for form in FORMATS],
                *[("verify", "--facts", "f.json", "-p", "p.yml", "--tier", "perf", "--evidence", "e.json", "--html", "e.html")] * 3,
                ("verify", "--facts", "g.json", "-p", "p.yml", "--after-reboot", "f.json"),
                ("verify", "--facts", "f.json", "-p", "p.yml", "--after-reboot", "g.json"),
                *[("diff", "f.json", "g.json"), ("diff", "g.json", "f.json")],
            ]
        )
    )
    return Case("facts", words, {**T4, "f.json": raw, **({"g.json": GOOD_FACTS} if "g.json" in words else {})})


@st.composite
def evidence(draw: DrawFn) -> Case:
    tree = draw(trees([sample_evidence()]))
    if draw(st.booleans()):  # as a careful forger leaves it
        try:
            for host in tree["hosts"]:
                host["sha256"] = {part: canonical.digest(host[part]) for part in ("report", "facts", "profile", "lock")}
                host["findings_sha256"] = proof.findings_digest(host["report"])
            tree["sha256"] = proof._digest_of_all(tree)
        except (TypeError, ValueError, KeyError, AttributeError):
            tree["sha256"] = "0" * 64
    words = draw(
        st.sampled_from(
            [
                *[("accept", "e.json", "--bundle", "b.zip", "--signers", "signers"), ("accept", "e.json", "--bundle", "b.zip", "--md")],
                ("verify", "--facts", "f.json", "--bundle", "b.zip", "--against", "e.json"),
            ]
        )
    )
    more = {"b.zip": bundle.pack(desk().bundle), "f.json": GOOD_FACTS, "signers": desk().signers}
    files = {name: data for name, data in more.items() if name in words}
    return Case("evidence", words, {**files, "e.json": contents(draw, json_texts(tree))})


@functools.cache
def sample_evidence() -> Any:
    """Evidence that `verify` writes of the good host."""
    from provision.cli import cli

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "f.json").write_bytes(GOOD_FACTS)
        (folder / "b.zip").write_bytes(bundle.pack(desk().bundle))
        (folder / "signers").write_bytes(desk().signers)
        words = ["verify", "--facts", "f.json", "--bundle", "b.zip", "--signers", "signers", "--evidence", "e.json"]
        at = {"f.json", "b.zip", "signers", "e.json"}
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli.main(args=[str(folder / word) if word in at else word for word in words], standalone_mode=False)
        return json.loads((folder / "e.json").read_bytes())


NAMES: Final = [
    *(
        "../x",
        "/etc/x",
        "a//b",
        "A.md",
        "REVIEW.md",
        "x\\y",
        "c:x",
        "é",
        "a" * 300,
        "render/ansible",
        "statement.json/x",
        "",
        " ",
        "\x1b[2J",
        "review.md/",
    ),
    *(
        "approvals/a b.json",
        "approvals/x.json",
        "approvals/../x.json",
        "approvals/" + "p" * 100 + ".json",
        "con",
        ".hidden",
        "profile.yml ",
    ),
]


@st.composite
def bundles(draw: DrawFn) -> Case:
    files = dict(desk().bundle)
    for _ in range(draw(st.integers(0, 2))):
        name = draw(st.sampled_from(sorted(files)))
        kind = draw(st.sampled_from(["content", "content", "tree", "tree", "drop", "name", "more"]))
        if kind == "content":
            files[name] = draw(damaged(files[name]))
        elif kind == "tree":
            files.update(draw(forged_parts()))
        elif kind == "drop":
            del files[name]
        elif kind == "name":
            files[draw(st.sampled_from([*NAMES, *TEXTS[:20]]))] = files.pop(name)
        else:
            files |= {f"approvals/p{n}.json": b"{}" for n in range(draw(st.sampled_from([1, 70, 2100])))}
    if draw(st.booleans()) and bundle.STATEMENT in files:
        files = stated(files)
    words = draw(
        st.sampled_from(
            [
                *[("verify-signature", "b", "--signers", "signers")] * 3,
                *[("review", "p.yml", "--against", "b"), ("verify", "--facts", "f.json", "--bundle", "b"), ("review", "p.yml", "-o", "b")],
                ("verify-signature", "b", "--signers", "signers", "--json"),
            ]
        )
    )
    more: dict[str, bytes | Odd] = {**(T4 if "p.yml" in words else {}), **({"f.json": GOOD_FACTS} if "f.json" in words else {})}
    if draw(st.integers(0, 3)) == 0 and all(is_name(name) for name in files):
        parts: dict[str, bytes | Odd] = {f"b/{name}": data for name, data in files.items()}
        if draw(st.booleans()):
            parts["b/" + draw(st.sampled_from(["odd", *files]))] = draw(ODD)
    else:
        words = tuple("b.zip" if word == "b" else word for word in words)
        parts = {"b.zip": contents(draw, zips(files))}
    return Case("bundle", words, {**more, **parts, "signers": desk().signers})


def is_name(name: str) -> bool:
    """Whether a file of that name can lie beside the others in a folder."""
    return (
        name.isascii()
        and name.isprintable()
        and len(name) < 200
        and not name.startswith("/")
        and ".." not in name
        and not name.endswith(("/", "yml/x", "json/x"))
        and name.strip(". ") != ""
        and name not in {"render/ansible", "a//b"}
    )


def stated(files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with a statement that names them, where the statement can be read."""
    try:
        approvals = {name: data for name, data in files.items() if name.startswith("approvals/")}
        return {**restated({n: d for n, d in files.items() if n not in approvals}), **approvals}
    except (ValueError, TypeError, RecursionError):
        return files


@st.composite
def forged_parts(draw: DrawFn) -> dict[str, bytes]:
    """A profile, lock, rules, statement or approval of another content."""
    name = draw(st.sampled_from(["profile.yml", "lock.yml", "policy.yml", bundle.STATEMENT, "approvals/alice@example.com.json"]))
    base = yaml.safe_load(desk().bundle[name])
    tree = draw(trees([base], 2))
    if name.endswith(".json"):
        try:
            return {name: bundle.canonical(tree)}
        except ValueError:
            return {name: draw(json_texts(tree))}
    return {name: draw(yaml_texts(tree))}


@st.composite
def zips(draw: DrawFn, files: dict[str, bytes]) -> bytes:
    """A zip as `pack` makes it or as others do, damaged perhaps."""
    kind = draw(st.sampled_from(["packed", "packed", "packed", "damaged", "damaged", "header", "odd"]))
    try:
        packed = bundle.pack(files)
    except (ValueError, IndexError):  # zipfile writes no such name
        packed = bundle.pack(desk().bundle)
    if kind == "packed":
        return packed
    if kind == "damaged":
        return draw(damaged(packed))
    if kind == "header":  # in the directory at the end, where the sizes and offsets are
        raw = bytearray(packed)
        for _ in range(draw(st.integers(1, 4))):
            raw[-draw(st.integers(1, min(len(raw), 900)))] = draw(st.sampled_from([0, 1, 8, 0x7F, 0xFF]))
        return bytes(raw)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw(st.sampled_from([zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA]))) as archive:
        for name in sorted(desk().bundle):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = draw(st.sampled_from([0, 0o644 << 16, (stat.S_IFLNK | 0o777) << 16, (stat.S_IFIFO | 0o644) << 16, 0x10]))
            archive.writestr(entry, desk().bundle[name], compress_type=archive.compression)
        archive.writestr(
            zipfile.ZipInfo("bomb", (1980, 1, 1, 0, 0, 0)), b"\0" * draw(st.sampled_from([0, 9 << 20])), compress_type=zipfile.ZIP_DEFLATED
        )
        archive.comment = draw(st.binary(max_size=20))
    return out.getvalue()


SIGNER_LINES: Final = [
    *(
        "# comment",
        "",
        "*",
        "alice@example.com",
        "* cert-authority ssh-ed25519 AAAA",
        'x namespaces="',
        'x namespaces="gpuprov-review@v1" ssh-ed25519 KEY',
    ),
    *(
        'x valid-after="20260231" ssh-ed25519 KEY',
        'x valid-after="99999999999999999999",valid-before="0" ssh-ed25519 KEY',
        "!x,* ssh-ed25519 KEY",
        "ssh-ed25519 KEY",
    ),
    *(
        "* " + 'namespaces="a",' * 500 + "ssh-ed25519 KEY",
        "a," * 20_000 + "b ssh-ed25519 KEY",
        "x ssh-rsa KEY",
        "x ecdsa-sha2-nistp256 AAAA",
        "x" * 100_000,
    ),
    *(
        "\x00",
        "\x1b[2J ssh-ed25519 KEY",
        "é ssh-ed25519 KEY",
        '"quoted name" ssh-ed25519 KEY',
        "x zos-key=1 ssh-ed25519 KEY",
        "*" * 60 + " ssh-ed25519 KEY",
    ),
    *(
        "[" + "a" * 60 + "] ssh-ed25519 KEY",
        "\x1b]0;t\x07,alice@example.com ssh-ed25519 KEY",
        "hash: SHA256:AAAA",
        "serial: 1-99999999999999999999",
        "id: x",
    ),
]


@st.composite
def signers(draw: DrawFn) -> Case:
    made = desk()
    lines = made.signers.decode().splitlines()
    for _ in range(draw(st.integers(0, 3))):
        line = draw(st.one_of(st.sampled_from(SIGNER_LINES), st.sampled_from(TEXTS), st.text(max_size=60))).replace("KEY", made.key)
        lines.insert(draw(st.integers(0, len(lines))), line)
    who = contents(draw, damaged("\n".join(lines).encode("utf-8", "surrogatepass")))
    revoked = contents(
        draw,
        damaged(
            draw(st.sampled_from([b"", made.signers, b"SSHKRL\n\x00" + b"\x00\x00\x00\x01" * 12, b"ssh-ed25519 " + made.key.encode()]))
        ),
    )
    files: dict[str, bytes | Odd] = {"b.zip": bundle.pack(made.bundle), "signers": who}
    words: tuple[str, ...] = ("verify-signature", "b.zip", "--signers", "signers")
    if draw(st.booleans()):
        files["revoked"], words = revoked, (*words, "--revoked", "revoked")
    if draw(st.integers(0, 3)) == 0:
        files["b.zip"] = bundle.pack({**made.bundle, **draw(changed_approvals())})
    return Case("signers", words, files)


@st.composite
def changed_approvals(draw: DrawFn) -> dict[str, bytes]:
    names = [name for name in desk().bundle if name.startswith("approvals/")]
    name = draw(st.sampled_from(names))
    return {
        name: draw(damaged(desk().bundle[name])),
        f"approvals/{draw(st.sampled_from(['carol@example.com', 'x', 'A.b-c_d']))}.json.sig": draw(st.binary(max_size=99)),
    }


@st.composite
def cloud_answers(draw: DrawFn) -> Case:
    """A command that asks clouds, one answer of which is not what it was; whoever may tag machines writes a part of it."""
    made = answers.recorded()
    words = draw(st.sampled_from(answers.WORDS))
    key = draw(st.sampled_from(sorted(made.answers[words])))
    replies = list(made.answers[words][key])
    nth = draw(st.integers(0, len(replies) - 1))
    status, kind, body = replies[nth]
    if draw(st.integers(0, 9)) == 0:
        replies[nth] = portal.KINDS[draw(st.sampled_from(sorted(portal.KINDS)))](status, body)
    elif body.lstrip().startswith(b"<"):
        replies[nth] = (status, kind, draw(xml_texts(body)))
    else:
        replies[nth] = (status, kind, draw(json_texts(draw(trees([json.loads(body or b"{}")])))))
    files: dict[str, bytes | Odd] = {f".own/home/gpuprov/{name}": raw for name, raw in made.files.items()}
    return Case("cloud", words, files, {**made.answers[words], key: tuple(replies)})


MAKERS: Final[dict[str, tuple[Callable[[], SearchStrategy[Case]], int]]] = {
    "profile": (profiles, 5),
    "lock": (locks, 4),
    "policy": (policies, 3),
    "facts": (facts, 3),
    "evidence": (evidence, 2),
    "bundle": (bundles, 2),
    "signers": (signers, 1),
    "cloud": (cloud_answers, 4),
}
"""Kind → how its cases are made, and its share of them."""


def cases(kind: str, number: int, count: int) -> list[Case]:
    """So many cases of a kind; the same for the same number."""
    sample_evidence()  # made before, since it is of this minute and of new keys
    if kind == "cloud":
        answers.recorded()
    made: list[Case] = []

    @seed(number)
    @settings(max_examples=count, phases=[Phase.generate], database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MAKERS[kind][0]())
    def collect(case: Case) -> None:
        made.append(case)

    collect()
    return made[:count]
