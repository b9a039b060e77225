"""The review as Markdown, for an issue, a pull request or an archive: the page's twin, section by section."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from provision.report.base import inert
from provision.report.markdown import code, prose
from provision.review.page import GLYPHS, pretty
from provision.review.tree import Change, ControlItem, EnvironmentItem, Money, PermissionItem, PlaceItem, Review, Risk

__all__ = ["render"]

_LONGEST = 2_000


def render(review: Review) -> str:
    """The whole review, without the end of its last line."""
    lines: list[str] = [f"# Review of {code(review.profile)}", "", *_head(review)]
    for title, body in (
        (
            "Risks",
            [*_risks(review.risks), "", "### What security gains", "", *(f"- **{g.title}**: {_say(g.reason)}" for g in review.gains)],
        ),
        ("What will exist", _exists(review)),
        ("Price", _price(review)),
        ("Exposure", _exposure(review)),
        ("Software", _software(review)),
        ("Changes on the host", _host(review.changes, review.reboots)),
        ("How to undo it", [f"- {_say(words)}" for words in review.undo]),
        ("What will be proven", _proof(review)),
        ("Permissions and calls", _permissions(review)),
        ("The profile", _block("\n".join(inert(line, _LONGEST) for line in review.text), "yaml")),
        ("Questions", [f"- [ ] {_say(question.text)}" for question in review.questions]),
        (
            "Digests",
            [
                f"- profile {code(review.profile_sha256)}",
                f"- lock {code(review.lock_sha256)}",
                f"- rules {code(review.rules)} {code(review.rules_sha256)}",
                f"- made by {code(review.made_by)}",
            ],
        ),
    ):
        lines += [f"## {title}", "", *body, ""]
    return "\n".join(lines).rstrip("\n")


def _say(text: str) -> str:
    """A text on one line in which nothing is markup; a line break of it is a space."""
    flat = text.replace("\n", " ")
    return " ".join(prose(flat[at : at + 390]) for at in range(0, max(1, len(flat)), 390))


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)] if rows else ["none"]


def _plain(text: str) -> str:
    """Prose within a table, whose bars are read before anything else."""
    return _say(text).replace("\\|", "&#124;").replace("|", "&#124;")


def _block(text: str, language: str) -> list[str]:
    fence = "````"
    while fence in text:
        fence += "`"
    return [f"{fence}{language}", text, fence]


def _head(review: Review) -> Iterator[str]:
    counts = ", ".join(f"{review.count(s)} {s}" for s in GLYPHS if review.count(s))
    yield f"**{_say(review.sentence)}.** Risks: {counts}."
    yield ""
    yield f"- Purpose: {_say(review.purpose)}"
    yield f"- Owner: {_say(review.owner)} {code(review.owner_email)}"
    yield f"- System: {code(review.system)}, GPU {code(review.gpu)}"
    yield ""


def _risks(found: Sequence[Risk]) -> Iterator[str]:
    for risk in found:
        default = "" if risk.written else ", not written, so its default"
        at = (
            f"line {risk.line}: {code(risk.key)}{default}"
            if risk.line
            else f"{code(risk.key)}{default}"
            if risk.key
            else "no key of the profile"
        )
        yield f"- **{GLYPHS[risk.severity]} {risk.severity}: {_say(risk.title)}** ({at})"
        yield f"  - why: {_say(risk.reason)}"
        if risk.narrower:
            yield f"  - narrower: {_say(risk.narrower)}"


def _usd(figure: float | None, digits: int = 2) -> str:
    return "not known" if figure is None else f"{figure:.{digits}f}"


def _exists(review: Review) -> list[str]:
    def row(place: PlaceItem) -> list[str]:
        hourly = _usd(place.usd_per_hour, 3) + ("" if place.price_whole else " (GPU alone)")
        image = _whole(place.image_id or place.image)
        return [
            _whole(f"{place.cloud} {place.region}"),
            _whole(f"{place.instance_type} {place.market}"),
            image,
            hourly,
            _usd(place.usd_to_deadline),
            _plain(place.passed_over) or "tried",
        ]

    disks = [
        [d.what, str(d.size_gb or "as the type has"), _whole(d.mount), _plain(d.filesystem), _plain(d.encrypted), _plain(d.kept)]
        for d in review.disks
    ]
    return [
        *_table(["place", "machine", "image", "USD an hour", "to the deadline", "note"], [row(p) for p in review.places]),
        "",
        *_table(["disk", "GB", "mounted at", "file system", "encrypted", "kept"], disks),
        "",
        f"- addresses: {_say(review.addresses)}",
        f"- tags: {', '.join(code(tag) for tag in review.tags)}",
    ]


def _price(review: Review) -> list[str]:
    money: Money = review.money
    ceiling = (
        "none that is enforced: a place whose price is not known is not refused"
        if money.ceiling_usd is None
        else f"{money.ceiling_usd:.2f} USD"
    )
    return [
        f"- an hour: {_usd(money.lowest_usd_per_hour, 3)} to {_usd(money.highest_usd_per_hour, 3)} USD",
        f"- places that would be tried whose price is not known: {money.unknown_places}",
        f"- limit: {money.limit_usd_per_hour:.2f} USD an hour, {money.limit_to_deadline_usd:.2f} USD in {money.deadline_h} hours",
        f"- ceiling: {ceiling}",
        f"- beside it: {_say(money.beside)}",
        *(f"- source: {_say(source)}" for source in dict.fromkeys(p.price_source for p in review.places)),
        f"- catalogue of {code(review.catalogue)}",
    ]


def _exposure(review: Review) -> list[str]:
    rows = [[d.direction, _plain(d.port), _whole(d.network), _plain(d.meaning)] for d in review.doors]
    return [*_table(["direction", "port", "network", "which is"], rows), "", *(f"- {_say(login)}" for login in review.logins)]


def _software(review: Review) -> list[str]:
    packages = [
        [_whole(p.name), _whole(p.version) if p.version else "the newest there", _plain(p.origin), ", ".join(p.roles)]
        for p in review.packages
    ]
    lines = [f"- {_say(part)}: {_say(words)}" for part, words in review.stack]
    lines += [f"- repository {code(r.name)} ({r.kind}): {code(r.url)}, trusted by {code(r.trust)}" for r in review.repositories]
    lines += ["", *_table(["package", "version", "from", "for"], packages)]
    for environment in review.environments:
        lines += ["", *_wheels(environment)]
    return lines


def _wheels(environment: EnvironmentItem) -> Iterator[str]:
    yield f"### {_say(environment.name)} {code(environment.version)}: {len(environment.wheels)} wheels from {code(environment.index)}"
    yield ""
    yield from _block(
        "\n".join(
            inert(f"{w.name}=={w.version}" if w.hashes else f"NO HASH: {w.name}", _LONGEST) + "".join(f"\n    sha256:{h}" for h in w.hashes)
            for w in environment.wheels
        ),
        "text",
    )


def _host(changed: Sequence[Change], reboots: int) -> list[str]:
    rows = [[_plain(c.role), c.kind, _whole(c.target), _plain(c.says), _plain(c.undo)] for c in changed]
    return [f"Reboots: {reboots} at most.", "", *_table(["role", "kind", "what", "says", "undo"], rows)]


def _whole(text: str) -> str:
    """A code span in a table that is not cut: what is changed must be read whole."""
    return code(text, _LONGEST).replace("|", "\\|")


def _proof(review: Review) -> list[str]:
    def row(each: ControlItem) -> list[str]:
        keys = ", ".join(f"{_whole(key)}{f' (line {line})' if line else ''}" for key, line in zip(each.keys, each.lines, strict=True))
        return [_whole(each.check), _plain(each.title), keys, each.role or "observed alone", each.tier, each.waived or ""]

    idle = ", ".join(f"{code(c.check)} ({_say(c.why)})" for c in review.controls if not c.applies)
    return [
        *(f"- waived: {code(w.check)} until {w.expires}: {_say(w.reason)} ({code(w.owner)})" for w in review.waivers),
        *([""] if review.waivers else []),
        *_table(["check", "proves", "asked by", "made so by", "tier", "waived until"], [row(c) for c in review.controls if c.applies]),
        "",
        f"Not judged: {idle}.",
    ]


def _permissions(review: Review) -> list[str]:
    lines: list[str] = []
    for each in review.permissions:
        lines += [f"### {_say(each.cloud)}", "", _say(each.note), "", *_granted(each)]
    for call in review.calls:
        lines += [f"#### {code(call.action)}: {_say(call.why)}", ""]
        lines += [*_block(pretty(call.parameters), "json"), ""]
    return lines


def _granted(permission: PermissionItem) -> list[str]:
    lines = [*(f"- {code(action)}" for action in permission.actions or ()), ""]
    if permission.document:
        lines += [*_block(pretty(permission.document), "json"), ""]
    return lines
