"""The picture of where the time of each row goes, as plain SVG: CPU by phase, of processes that do one phase after another.

`import` is Python with the modules of the command, `parse` the profile, `judge` a report of one host, `print` its text. `connect` and
`wait` are not the client's own: they are the rest of the row's time, and their floor is in another program (OpenSSH, the probe, a cloud).
"""

import json
import subprocess
import sys
from pathlib import Path
from xml.sax.saxutils import escape

COLOURS = {"python": "#8c959f", "import": "#0969da", "parse": "#1a7f37", "judge": "#9a6700", "print": "#bf3989"}
PHASES = """
import json, sys, time
took, now = {{"python": time.process_time()}}, time.process_time
def phase(name, since):
    took[name] = took.get(name, 0) + now() - since
at = now(); import provision.cli, provision.cli.{module}; {more}; phase("import", at)
from provision.profile import load
at = now(); profile = load.load(load.find("t4-train")); phase("parse", at)
if {judged}:
    from provision.report import text
    from provision.verify.facts import parse
    from provision.verify.judge import judge
    at = now(); report = judge(parse(json.loads(sys.stdin.read()), "bench"), profile); phase("judge", at)
    at = now(); text.render(report); phase("print", at)
print(json.dumps(took))
"""
# The row, the module of its command, what the command imports once its connection is on its way, and whether it judges.
ROWS = (
    ("verify", "verify", "import provision.cli.verdict", True),
    ("up", "up", "pass", False),
    ("ls", "ls", "pass", False),
    ("apply", "apply", "pass", True),
)


def phases(facts: str, runs: int = 5) -> dict[str, dict[str, float]]:
    """Milliseconds of CPU of each phase of each command: of several runs the one whose sum is the median."""
    found = {}
    for row, module, more, judged in ROWS:
        code = PHASES.format(module=module, more=more, judged=judged)
        took = [json.loads(subprocess.run([sys.executable, "-c", code], input=facts, check=True, capture_output=True, text=True).stdout)
                for _ in range(runs)]  # fmt: skip
        found[row] = {name: 1000 * s for name, s in sorted(took, key=lambda one: sum(one.values()))[runs // 2].items()}
    return found


def draw(found: dict[str, dict[str, float]], path: Path) -> None:
    """Write the bars, one for each command, with a legend above and the milliseconds at the end."""
    longest = max(sum(parts.values()) for parts in found.values())
    shapes = []
    for number, (name, colour) in enumerate(COLOURS.items()):
        shapes += [f'<rect x="{20 + 110 * number}" y="34" width="12" height="12" fill="{colour}"/>']
        shapes += [f'<text x="{38 + 110 * number}" y="45">{name}</text>']
    for number, (row, parts) in enumerate(found.items()):
        x, y = 90.0, 64 + 34 * number
        shapes.append(f'<text x="20" y="{y + 15}">{escape(row)}</text>')
        for name, ms in parts.items():
            width = 480 * ms / longest
            shapes.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="22" fill="{COLOURS[name]}"/>')
            if width > 34:
                shapes.append(f'<text x="{x + 4:.1f}" y="{y + 15}" fill="white">{ms:.0f}</text>')
            x += width
        shapes.append(f'<text x="{x + 6:.1f}" y="{y + 15}">{sum(parts.values()):.0f} ms</text>')
    height = 76 + 34 * len(found)
    title = "What the client computes itself, ms of CPU. The rest of a row is OpenSSH, the host or a cloud."
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {height}" font-family="sans-serif" font-size="12" role="img">\n'
        f'<rect width="660" height="{height}" fill="white"/>\n<text x="20" y="22" font-size="13">{title}</text>\n'
        + "\n".join(shapes) + "\n</svg>\n"
    )  # fmt: skip
