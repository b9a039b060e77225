"""The picture of where the time of each row goes, as plain SVG: a bar for each, by phase, beside the row's floor.

All bars have one scale, multiples of the row's own floor, so that rows of milliseconds and of seconds are read alike: the grey bar is the
floor, and always as long; the tick on ours is the aim of the issue. What each phase is stands in tests/bench/phases.py.
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
    "python": "Python's start and end",
    "sdk": "the cloud's library",
    "connect": "connect (of CPU: ssh)",
    "wait": "wait (tasks of Ansible)",
    "rest": "rest: our own code",
}
DARK = {"wait", "tasks", "connect", "ssh"}  # colours on which black is read better
LEFT, WIDTH, HIGH = 20, 1000, 62
BAR = WIDTH - LEFT - 190  # the rest is for the sum behind the longest bar
SCALES = {"s": 1000.0, "CPU s": 1000.0, "CPU ms": 1.0}


def draw(rows: Sequence[Row], path: Path) -> None:
    """Write the bars of all rows whose phases were measured."""
    drawn = [row for row in rows if row.phases]
    longest = max(max(sum(row.phases.values()), row.figure, row.floor, aim_of(row).limit(row)) / row.floor for row in drawn)
    shapes = [shape for number, row in enumerate(drawn) for shape in _row(row, 96 + HIGH * number, BAR / longest)]
    height = 104 + HIGH * len(drawn)
    title = "Where the time goes, by phase, beside the row's floor (grey). One unit of length is the row's floor; the red tick is the aim."
    note = (
        "Numbers in the bars are ms. Ours is one more run that is watched: its sum may differ from the median, which stands behind it. "
        "What happens at the same time counts once, computing before waiting."
    )
    head = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12" role="img">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="24" font-size="15">{escape(title)}</text>',
        f'<text x="{LEFT}" y="44" fill="#57606a" font-size="11">{escape(note)}</text>',
    ]
    path.write_text("\n".join([*head, *_legend(), *shapes, "</svg>", ""]))


def _legend() -> list[str]:
    shapes, x = list[str](), float(LEFT)
    for phase in ("python", "import", "parse", "judge", "print", "sdk", "connect", "wait", "rest"):
        word = LEGEND.get(phase, phase)
        shapes.append(f'<rect x="{x:.0f}" y="58" width="12" height="12" fill="{COLOURS[phase]}"/>')
        shapes.append(f'<text x="{x + 17:.0f}" y="69">{word}</text>')
        x += 40 + 6.4 * len(word)
    return shapes


def _row(row: Row, y: int, unit: float) -> list[str]:
    """The shapes of one row: its name, our bar by phase with the aim's tick, and the floor's."""
    aim, scale = aim_of(row), SCALES[row.unit]
    shapes = [f'<text x="{LEFT}" y="{y + 11}" font-weight="bold">{escape(row.name.partition(" / ")[0])}</text>']
    x = float(LEFT)
    for phase, value in row.phases.items():
        width = unit * value / row.floor
        shapes.append(f'<rect x="{x:.1f}" y="{y + 16}" width="{width:.1f}" height="20" fill="{COLOURS[phase]}"/>')
        text = f"{scale * value:.0f}"
        if width > 8 + 7 * len(text):
            shapes.append(f'<text x="{x + 4:.1f}" y="{y + 30}" fill="{"black" if phase in DARK else "white"}">{text}</text>')
        x += width
    shapes.append(f'<text x="{x + 8:.1f}" y="{y + 30}">{row.figure:.3g} {row.unit} = {row.ratio:.2f} x</text>')
    tick = LEFT + unit * aim.limit(row) / row.floor
    shapes.append(f'<rect x="{tick - 1:.1f}" y="{y + 12}" width="3" height="28" fill="#cf222e"/>')
    shapes.append(f'<rect x="{LEFT}" y="{y + 38}" width="{unit:.1f}" height="13" fill="#d0d7de"/>')
    shapes.append(f'<text x="{LEFT + 4}" y="{y + 49}" font-size="11">{escape(floor_in_words(row, aim))}</text>')
    return shapes


def floor_in_words(row: Row, aim: Aim) -> str:
    """What the floor is, how much, and in whose hands."""
    what = f"floor: {row.name.partition(' / ')[2]}, {row.floor:.3g} {row.unit}"
    return f"{what}; in {aim.program}, not in gpuprov" if aim.program else f"{what}; gpuprov's own"
