"""The lines of every check of a component, true and false, as the command line prints them."""

from tests.verify import shown


def test_the_lines_of_every_component_are_those_that_were_read_last() -> None:
    printed = shown.output()
    assert printed == shown.GOLDEN.read_text(), "if this is meant: python -m tests.verify.shown --write"
    for scene in shown.SCENES:
        for check in scene.checks:
            assert f"  pass           {check}" in printed
            assert f"  fail           {check}" in printed
