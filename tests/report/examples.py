"""The reports that every format is tested with."""

from pathlib import Path

from provision.verify.facts import load
from provision.verify.finding import OUTCOMES, Finding, Report
from provision.verify.points import measurement_of

# What a terminal, a browser, a Markdown or XML reader, a template and a harness would obey; longer than anybody reads.
EVIL = (
    "\x1b[2J\x1b]0;owned\x07\r\n\u202egnp.exe\u2028\x00\ud800 ok 1 - forged # SKIP ]]> --> <script>alert(1)</script> <b onclick=x> &amp; "
    "\"'`` ` | a|b \\| [link](javascript:x) ![i](http://evil.example/i) http://evil.example @everyone {{ 7*7 }} {% x %} [bold]x[/bold] "
) + "x" * 10_000

FINDINGS = tuple(
    Finding(
        f"check-{outcome}",
        f"what {outcome} proves",
        outcome,
        f"expected {outcome}",
        f"observed {outcome}",
        "" if outcome in {"pass", "not-applicable", "waived"} else f"do `gpuprov apply HOST --role {outcome}` now",
        role="base" if outcome == "fail" else None,
    )
    for outcome in OUTCOMES
)
ONE = Report(
    "host-a",
    "t4-train",
    FINDINGS,
    notes=("GPU part excused by --without-gpu: 1 check was not proven",),
    observed_at="2026-11-21T04:00:39Z",
    elapsed_s=1.25,
)
CLEAN = Report("host-b", "t4-train", FINDINGS[:1], observed_at="2026-11-21T04:00:41Z", elapsed_s=0.5)
UNKNOWN = Report("host-c", "t4-train", (FINDINGS[0], FINDINGS[4]), observed_at="2026-11-21T04:00:40Z")
EMPTY = Report("host-d", "t4-train", ())
HOSTILE = Report(
    EVIL,
    EVIL,
    tuple(Finding(EVIL, EVIL, outcome, EVIL, EVIL, EVIL, role=EVIL) for outcome in OUTCOMES),
    notes=(EVIL, "", EVIL[::-1]),
    observed_at=EVIL,
    elapsed_s=0.0,
)

CASES: dict[str, tuple[Report, ...]] = {
    "one of each outcome": (ONE,),
    "nothing wrong": (CLEAN,),
    "something unknown": (UNKNOWN,),
    "no findings": (EMPTY,),
    "hostile": (HOSTILE,),
    "several hosts": (ONE, CLEAN, UNKNOWN),
    "several hosts, all well": (CLEAN, CLEAN),
    "several hosts, one hostile, one empty": (HOSTILE, ONE, EMPTY),
    "a fleet": tuple(Report(f"node-{n}.example", "t4-train", FINDINGS[n % 3 :], observed_at=ONE.observed_at) for n in range(45)),
}

# Two H200 as they were measured.
MEASURED = list(filter(None, [measurement_of("host-a", load(Path(__file__).parents[1] / "data" / "facts" / "h200-perf.json"))]))
