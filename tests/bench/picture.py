"""The picture of where the time of each row goes, as plain SVG: a bar for each, by phase, above the row's floor.

Each row has a scale of its own, since rows last from milliseconds to seconds: its longest bar has the whole width. What is to be read is
ours (coloured) beside the floor (grey) and the aim (the red tick). What each phase is stands in tests/bench/phases.py.
"""

from collections.abc import Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from tests.bench.aims import Aim, aim_of
from tests.bench.row import Row

COLOURS = {
    "python": "#6e7781",
    "import": "#0969da",
    "parse": "#1a7f37",
    "judge": "#9a6700",
    "print": "#bf3989",
    "sdk": "#8250df",
    "connect": "#fb8f44",
    "wait": "#f5d9a8",
    "ssh": "#fb8f44",
    "tasks": "#f5d9a8",
    "rest": "#24292f",
}
LEGEND = {
    "python": "Python itself",
    "sdk": "cloud's library",
    "connect": "connect (row 9: ssh)",
    "wait": "wait (row 7: Ansible's tasks)",
    "rest": "rest",
}
DARK = {"wait", "tasks", "connect", "ssh"}  # colours on which black is read better
LEFT, WIDTH, HIGH = 20, 1000, 66
BAR = WIDTH - 2 * LEFT
SCALES = {"s": 1000.0, "CPU s": 1000.0, "CPU ms": 1.0}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the bars of all rows whose phases were measured."""
    drawn = [row for row in rows if row.phases]
    shapes = [shape for number, row in enumerate(drawn) for shape in _row(row, 112 + HIGH * number)]
    height = 116 + HIGH * len(drawn)
    said = [
        "Each row has its own scale. Grey is its floor, the red tick the aim. Numbers in bars are ms (row 10: of 1,000 files).",
        "The coloured bar is one more run, watched: its sum differs from the title's median. Computing counts before waiting.",
    ]
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">Where the time goes, row by row, beside its floor</text>',
        *(f'<text x="{LEFT}" y="{42 + 16 * n}" fill="#57606a" font-size="11">{escape(line)}</text>' for n, line in enumerate(said)),
    ]
    path.write_text("\n".join([*head, *_legend(), *shapes, "</svg>", ""]))


def _legend() -> list[str]:
    shapes, x = list[str](), float(LEFT)
    for phase in ("python", "import", "parse", "judge", "print", "sdk", "connect", "wait", "rest"):
        word = LEGEND.get(phase, phase)
        shapes.append(f'<rect x="{x:.0f}" y="74" width="12" height="12" fill="{COLOURS[phase]}"/>')
        shapes.append(f'<text x="{x + 17:.0f}" y="85">{word}</text>')
        x += 36 + 6.1 * len(word)
    return shapes


def _row(row: Row, y: int) -> list[str]:
    """The shapes of one row: its name and figures, our bar by phase with the aim's tick, and the floor's."""
    aim, scale = aim_of(row), SCALES[row.unit]
    unit = BAR / max(sum(row.phases.values()), row.floor, aim.limit(row))
    met = "reached" if aim.reached(row) else "missed"
    said = f"{row.figure:.3g} {row.unit} = {row.ratio:.2f} x the floor; aim {aim.to_reach}: {met}"
    shapes = [f'<text x="{LEFT}" y="{y + 11}"><tspan font-weight="bold">{escape(row.name.partition(" / ")[0])}</tspan>']
    shapes[0] += f'<tspan dx="12">{escape(said)}</tspan></text>'
    x = float(LEFT)
    for phase, value in row.phases.items():
        width, text = unit * value, f"{scale * value:.0f}"
        shapes.append(f'<rect x="{x:.1f}" y="{y + 18}" width="{width:.1f}" height="20" fill="{COLOURS[phase]}"/>')
        if width > 8 + 7 * len(text):
            shapes.append(f'<text x="{x + 4:.1f}" y="{y + 32}" fill="{"black" if phase in DARK else "white"}">{text}</text>')
        x += width
    shapes.append(f'<rect x="{LEFT}" y="{y + 39}" width="{unit * row.floor:.1f}" height="14" fill="#d0d7de"/>')
    shapes.append(f'<text x="{LEFT + 4}" y="{y + 50}" font-size="11">{escape(floor_in_words(row, aim))}</text>')
    shapes.append(f'<rect x="{LEFT + unit * aim.limit(row) - 3:.1f}" y="{y + 14}" width="3" height="40" fill="#cf222e"/>')
    return shapes


def floor_in_words(row: Row, aim: Aim) -> str:
    """What the floor is, how much, and in whose hands."""
    what = f"floor: {row.name.partition(' / ')[2]}, {row.floor:.3g} {row.unit}"
    return f"{what}; in {aim.program}, not in gpuprov" if aim.program else f"{what}; gpuprov's own"
