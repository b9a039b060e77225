"""Rooflines as coordinates: within the picture, in order, and without labels that overlap."""

import itertools

from provision.report.chart import PLANE, charts

from .examples import MEASURED


def test_every_point_and_every_line_lies_within_the_picture_and_a_better_product_higher() -> None:
    [chart] = charts(MEASURED)
    places = [tuple(map(float, place.split(","))) for line in chart.lines for place in line[0].split()]
    for x, y in [*places, *((row.x, row.y) for row in chart.rows)]:
        assert PLANE["left"] <= x <= PLANE["right"]
        assert PLANE["top"] <= y <= PLANE["bottom"]
    slow, fast = sorted((row for row in chart.rows if row.point.precision), key=lambda row: row.point.tflops)
    assert fast.y < slow.y
    [roof] = [line for line in chart.lines if line[3]]
    assert roof[1] == "bf16, fp16: 989.5"
    assert float(roof[0].split()[-1].split(",")[1]) < fast.y, "below its roof"
    labels = [line[2] for line in chart.lines]
    assert all(after - before >= 12 for before, after in itertools.pairwise(labels))
