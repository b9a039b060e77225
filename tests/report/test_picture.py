"""The roofline's picture: measured points are in it, and named, wherever they lie."""

from pathlib import Path

from provision.catalog import read
from provision.catalog.roofline import Point, roofs
from provision.report import picture

ROOFS = [roof for roof in roofs(read.gpu("h200")) if roof.precision == "bf16"]
POINTS = [Point("GPU 0 bf16 product: 788 TFLOPS", 8192 / 3, 788.0), Point("GPU 0 memory: 4246 GB/s", 1.0, 4.246)]


def test_points_are_drawn_and_named_and_change_nothing_where_there_are_none(tmp_path: Path) -> None:
    for name, points in (("none", []), ("again", []), ("two", POINTS)):
        picture.draw(ROOFS, tmp_path / f"{name}.svg", points)
    without, again, drawn = ((tmp_path / f"{name}.svg").read_text() for name in ("none", "again", "two"))
    assert without == again
    assert "788 TFLOPS" not in without
    for point in POINTS:
        assert point.label in drawn


def test_the_terminal_names_them_too_and_reaches_as_far_as_they_lie() -> None:
    far = Point("far away", 1e6, 700.0)
    assert "far away" in picture.in_terminal(ROOFS, [*POINTS, far])
    assert "far away" not in picture.in_terminal(ROOFS)
