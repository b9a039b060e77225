"""From one machine to a thousand, drawn: what was measured as points, and beyond it the line through the measured terms, dashed.

It reads build/fleet.json of `python -m tests.bench.fleet --table`. Each way is a straight line through its measurement with one host and
that with most: so much for the process, and so much for each host. Calls of a push are those of one `up`, with the questions whether a
machine runs; of a group, those of `fleet up`. Money is the list price of the machines for one hour, which no way changes.

Run: python -m tests.bench.fleet_curve [FILE.svg]
"""

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from provision.launch.price import whole_price
from provision.profile import load
from tests.bench.fleet_table import OUT

SIZES = (1, 2, 5, 10, 16, 20, 50, 64, 100, 200, 500, 1000)
COLOURS = ("#0969da", "#1a7f37", "#9a6700", "#bf3989", "#8c959f")
WIDTH, HEIGHT, LEFT = 330, 210, 56
Points = Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Way:
    """One line of a panel: the points that it goes through, which were measured or are known."""

    name: str
    points: Points
    known: bool = False

    def at(self, hosts: int) -> float:
        """Of so many hosts: the line through the least and the most that were measured."""
        (low, first), (high, last) = self.points[0], self.points[-1]
        return first + (last - first) * (hosts - low) / (high - low)

    @property
    def most(self) -> int:
        return self.points[-1][0]


def main() -> None:
    found = json.loads(OUT.read_text())
    shown = panels(found)
    for title, ways in shown.items():
        print(title)
        for way in ways:
            print(
                f"  {way.name:<30}" + "".join(f"{way.at(size):12.4g}{' ' if size <= way.most else '*'}" for size in (1, 16, 64, 200, 1000))
            )
    print("  hosts: 1, 16, 64, 200, 1000; * simulated")
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/pictures/fleet.svg").write_text(picture(shown, found["date"]))


def panels(found: dict[str, Any]) -> dict[str, list[Way]]:
    """Title → the ways."""

    def rows(case: str, what: str, tasks: int = 40) -> Points:
        return sorted((row["hosts"], row[what]) for row in found["rows"] if (row["case"], row["tasks"]) == (case, tasks))

    def group(verb: str, what: str) -> Points:
        return [(row["size"], row[verb][what]) for row in found["groups"]]

    def ways(what: str) -> list[Way]:
        cases = {
            "gpuprov": "hosts set themselves up",
            "gpuprov, old hosts": "hosts with an old Python",
            "mitogen": "Mitogen",
            "pyinfra": "pyinfra",
            "ansible-playbook for all": "ansible-playbook",
        }
        return [Way(name, points) for case, name in cases.items() if len(points := rows(case, what)) > 1]

    profile = load.load(load.find("t4-train"))
    place = profile.places[0]
    price = whole_price(profile, place, place.regions[0])  # type: ignore[attr-defined]  # a place of AWS
    assert price is not None
    money = Way("g4dn.xlarge, list price", [(1, price.usd_per_hour), (1000, 1000 * price.usd_per_hour)], known=True)
    return {
        "CPU s of the client, 40 tasks": ways("cpu"),
        "MB of the client, 40 tasks": ways("mb"),
        "calls of the cloud's API": [
            Way("up --count N", rows("up, first", "calls", 0)),
            Way("fleet up", group("up", "calls")),
            Way("fleet status", group("status", "calls")),
        ],
        "USD for an hour": [money],
    }


def picture(shown: dict[str, list[Way]], date: str) -> str:
    """Four panels, both axes logarithmic."""
    shapes = [text(16, 22, f"From 1 to 1,000 machines: measured {date} (points), simulated beyond (dashed)", size=14)]
    for number, (title, ways) in enumerate(shown.items()):
        shapes += panel(title, ways, (number % 2) * (WIDTH + 90) + LEFT, (number // 2) * (HEIGHT + 150) + 60)
    whole = f'width="{2 * WIDTH + 2 * LEFT + 90}" height="{2 * HEIGHT + 300}"'
    box = f'viewBox="0 0 {2 * WIDTH + 2 * LEFT + 90} {2 * HEIGHT + 300}"'
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="sans-serif" font-size="11" role="img">\n<rect {whole} fill="white"/>\n'
    )
    return head + "\n".join(shapes) + "\n</svg>\n"


def panel(title: str, ways: Sequence[Way], left: float, top: float) -> list[str]:
    values = [way.at(size) for way in ways for size in (1, 1000)] + [value for way in ways for _, value in way.points]
    low, high = (math.floor(math.log10(max(min(values), 0.1))), math.ceil(math.log10(max(values))))

    def x(hosts: float) -> float:
        return left + WIDTH * math.log10(hosts) / 3

    def y(value: float) -> float:
        return top + HEIGHT * (1 - (math.log10(max(value, 0.1)) - low) / (high - low))

    shapes = [text(left, top - 8, title, size=12)]
    for power in range(low, high + 1):
        shapes += [
            line(left, y(10**power), left + WIDTH, y(10**power), "#d0d7de"),
            text(left - 6, y(10**power) + 4, f"{10.0**power:,g}", anchor="end"),
        ]
    for hosts in (1, 10, 100, 1000):
        shapes += [line(x(hosts), top, x(hosts), top + HEIGHT, "#d0d7de"), text(x(hosts), top + HEIGHT + 14, f"{hosts:,}", anchor="middle")]
    for number, (way, colour) in enumerate(zip(ways, COLOURS, strict=False)):
        shapes += drawn(way, colour, x, y)
        at = top + HEIGHT + 32 + 15 * number
        shapes += [
            line(left, at - 4, left + 18, at - 4, colour, width=2.0),
            text(left + 24, at, f"{way.name}: {rounded(way.at(1000))} at 1,000"),
        ]
    return shapes


def drawn(way: Way, colour: str, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    shapes = []
    for dash, sizes in (("", [*(s for s in SIZES if s < way.most), way.most]), ("5 4", [way.most, *(s for s in SIZES if s > way.most)])):
        points = " ".join(f"{x(size):.1f},{y(way.at(size)):.1f}" for size in sizes)
        shapes.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-dasharray="{dash}"/>')
    if way.known:
        return shapes
    return shapes + [f'<circle cx="{x(hosts):.1f}" cy="{y(value):.1f}" r="3.2" fill="{colour}"/>' for hosts, value in way.points]


def rounded(value: float) -> str:
    """Two digits that count, as a simulated figure has no more."""
    digits = 1 - math.floor(math.log10(value))
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def line(x1: float, y1: float, x2: float, y2: float, colour: str, *, width: float = 1.0) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def text(x: float, y: float, words: str, *, size: int = 11, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#1f2328">{escape(words)}</text>'


if __name__ == "__main__":
    main()
