"""What the driver's codes mean. Which verdict follows from each is in `checks/test_health.py`."""

import pytest

from provision.verify.codes import Action, action, advice, after_loss, chain, gravity, meaning

# Of each action of NVIDIA's catalogue, from the table that gpud generated on 2025-10-29: how many codes have it.
COUNTS: dict[Action, int] = {
    "nothing": 3,
    "look later": 22,
    "restart program": 48,
    "update driver": 1,
    "reset": 28,
    "reboot": 2,
    "replace": 68,
}


def test_every_code_of_the_catalogue_has_an_action() -> None:
    actions = [action(code) for code in range(1, 173)]
    assert {each: actions.count(each) for each in COUNTS} == COUNTS


def test_a_code_says_what_it_means_and_one_without_a_meaning_says_that() -> None:
    assert meaning(79) == "the GPU has fallen off the bus"
    assert meaning(12) == meaning(999) == "no meaning is published"
    assert sum(meaning(code) != "no meaning is published" for code in range(1, 173)) == 111


@pytest.mark.parametrize(
    ("events", "said"),
    [
        (
            [(31, False), (79, False), (63, False)],
            "XID 79 (the GPU has fallen off the bus): `sudo reboot`; where it comes again, stop and start",
        ),
        ([(48, False), (79, False)], "XID 79"),
        ([(79, False), (12, False)], "XID 12 (no meaning is published): replace the machine"),
        ([(149, True), (45, False)], "XID 149: NVLink recovered by itself: see `nvidia-smi nvlink -e`"),
        (
            [(31, False), (149, True)],
            "XID 31 (a page fault: a kernel touched memory that is not its own): run the program again; where other",
        ),
        ([(149, False)], "XID 149 (an NVLink 5 failed): end what uses the GPU, then `sudo nvidia-smi --gpu-reset`"),
        ([(63, False)], "XID 63 (a row or page of its memory was replaced, see gpu-health): nothing"),
    ],
)
def test_the_gravest_code_decides_what_to_do(events: list[tuple[int, bool]], said: str) -> None:
    assert advice(events).startswith(said)


def test_only_an_nvlink_5_is_milder_where_its_line_says_so() -> None:
    assert [code for code in range(1, 300) if gravity(code, nonfatal=True) != gravity(code)] == list(range(144, 151))


@pytest.mark.parametrize(
    ("errors", "like"),
    [
        ([], 79),  # the GPU has fallen off the bus
        ([15], 79),
        ([999], 79),
        ([16], 46),  # a reset
        ([8], 54),  # its power cable
        ([16, 15], 79),
        ([15, 16], 79),
        ([8, 15], 54),
    ],
)
def test_the_gravest_loss_of_a_gpu_decides_what_to_do(errors: list[int], like: int) -> None:
    assert after_loss(*errors) == f"drain the host; {chain(like)}"
    assert chain(79).startswith("`sudo reboot`")
    assert chain(46) != chain(54) != chain(79)
