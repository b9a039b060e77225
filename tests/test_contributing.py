"""CONTRIBUTING.md is executed: each recipe is followed in a copy of the repository with a toy.

The toy of each recipe is below. What it touches must be what the recipe lists, and the tests of its rooms must pass in the copy.
"""

import re
from pathlib import Path

import pytest

from tests.recipes import ROOT, Copy, Toy, listed, recipes

RENDER_TESTS = "tests/render"
CHECK_TESTS = ("tests/verify/checks/test_swap.py", "tests/verify/checks/test_init.py", "tests/profile/test_check_ids.py")
KEYS_TEST = "test_every_check_has_a_key_that_exists_and_every_role_a_thread"


def report_format(copy: Copy) -> None:
    copy.write(
        "provision/report/csv.py",
        '''"""The report for spreadsheets: a line for each check."""

from __future__ import annotations

from provision.report.base import inert
from provision.verify.finding import Report


def render(*reports: Report, strict: bool = False) -> str:
    """A heading, then a line for each finding with the exit code of its host."""
    lines = ["host,check,outcome,observed,exit_code"]
    for report in reports:
        for finding in report.findings:
            cells = (report.host, finding.check, finding.outcome, finding.observed, str(report.exit_code(strict=strict)))
            lines.append(",".join('"' + inert(cell).replace('"', '""') + '"' for cell in cells))
    return "\\n".join(lines)
''',
    )
    copy.after("provision/report/__init__.py", '"prometheus",', '    "csv",  # for spreadsheets\n')
    copy.after("docs/reference/report-formats.md", "| `prometheus` |", "| `csv` | spreadsheets |\n")
    copy.after("tests/report/test_reports.py", "STRICTLY = {", """    "csv": '"w","check-warn","warn","observed warn","1"',\n""")
    copy.write(
        "tests/report/test_csv.py",
        """import csv

from provision.report import csv as form

from .examples import ONE


def test_a_reader_of_csv_reads_each_finding() -> None:
    rows = list(csv.reader(form.render(ONE).splitlines()))
    assert len(rows) == 1 + len(ONE.findings)
    assert {len(row) for row in rows} == {5}
""",
    )


def organisation_rule(copy: Copy) -> None:
    copy.after("provision/review/policy.py", '    "max_deadline_h",', '    "max_root_gb",\n')
    copy.after(
        "provision/review/policy.py", "    max_deadline_h: Annotated", "    max_root_gb: Annotated[int, Field(ge=1)] | None = None\n"
    )
    copy.before(
        "provision/review/rules.py",
        "def _public_address(",
        """def _root_disk(case: _Case) -> Iterator[_Breach]:
    size, most = case.profile.disks.root.size_gb, case.policy.max_root_gb or 0
    if size > most:
        yield _Breach(("disks", "root", "size_gb"), f"{size} GB; at most {most} GB are allowed")


""",
    )
    copy.after("provision/review/rules.py", '    "max_deadline_h": _deadline,', '    "max_root_gb": _root_disk,\n')
    copy.after("tests/review/test_rules.py", "BROKEN: list[", '    ({"max_root_gb": 100}, {}, ["disks.root.size_gb"], True),\n')
    copy.after("tests/review/test_rules.py", "KEPT: list[", '    ({"max_root_gb": 200}, {}),\n')


def check(copy: Copy, role: str | None = None) -> None:
    """A check that nothing is swapped, with a fact of its own."""
    copy.write(
        "provision/verify/probe/swap.py",
        '''"""How much of the memory is on disk."""

from run import Unknown, read


def swap():
    """The devices and files that are swapped to."""
    text = read("/proc/swaps")
    if text is None:
        raise Unknown("this kernel has no /proc/swaps")
    return {"devices": [line.split()[0] for line in text.splitlines()[1:]]}


FACTS = {"swap": swap}
''',
    )
    copy.replace("provision/verify/observe.py", '"worker", "perf")', '"worker", "perf", "swap")')
    copy.write(
        "provision/verify/facts/swap.py",
        '''"""What is swapped to."""

from __future__ import annotations

from provision.verify.facts.base import Fact


class SwapFacts(Fact):
    """The devices and files that are swapped to."""

    name = "swap"
    devices: tuple[str, ...]
''',
    )
    copy.write(
        "provision/verify/checks/swap.py",
        f'''"""Swap hides that memory is short."""

from __future__ import annotations

from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, fails, passes
from provision.verify.facts import Facts
from provision.verify.facts.swap import SwapFacts


def _swap(facts: Facts, _profile: Profile) -> Verdict:
    swap = facts.read(SwapFacts)
    if swap.devices:
        return fails("no swap", ", ".join(swap.devices), "`swapoff -a` on the host")
    return passes("no swap", "none")


CHECKS = (Check("swap", "memory is not swapped to disk", _swap, role={role!r}),)
'''.replace("'", '"'),
    )
    copy.replace("provision/verify/checks/__init__.py", "    surroundings,\n", "    surroundings,\n    swap,\n")
    copy.after("provision/verify/checks/__init__.py", "*surroundings.CHECKS,", "    *swap.CHECKS,\n")
    copy.after("provision/profile/check_ids.py", "    upgrades", "    swap\n")
    if role is None:
        copy.after("provision/review/controls.py", '"root-grown": (', '    "swap": ("disks.root.size_gb",),\n')
    copy.after("tests/verify/good.py", '"users": ["ubuntu"],', '    "swap": {"devices": []},\n')
    copy.write(
        "tests/verify/checks/test_swap.py",
        """from .table import Case, table

CASES: list[Case] = [
    ("swap", {}, {}, "pass", "none"),
    ("swap", {"swap__devices": ["/dev/vda2"]}, {}, "fail", "/dev/vda2"),
    ("swap", {"swap": None}, {}, "unknown", "no fact"),
]

test_table = table(CASES)
""",
    )


def role(copy: Copy) -> None:
    """A role that keeps the kernel from swapping, found by the check."""
    check(copy, "swap")
    files = {
        "README.md": "# swap\n\nThe kernel swaps only what it must.\n",
        "defaults/main.yml": "---\n{}\n",
        "meta/argument_specs.yml": "---\nargument_specs:\n  main:\n    short_description: The kernel swaps only what it must\n"
        "    options: {}\n",
        "meta/changes.yml": """---
keys: [disks.root]
checks: [swap]
changes:
  - {kind: file, target: /etc/sysctl.d/60-gpuprov-swap.conf, says: the kernel swaps only what it must}
""",
        "tasks/main.yml": """---
- name: Let the kernel swap only what it must
  gpuprov.host.settle:
    role: swap
    files:
      - {path: /etc/sysctl.d/60-gpuprov-swap.conf, content: "vm.swappiness = 0\\n"}
""",
    }
    for name, text in files.items():
        copy.write(f"playbooks/roles/swap/{name}", text)
    copy.after("playbooks/site.yml", "role: storage,", "    - {role: swap, tags: [swap]}\n")
    copy.after("provision/converge/roles.py", '    "storage",', '    "swap",\n')


def gpu(copy: Copy) -> None:
    """A card that no cloud of the catalogue offers."""
    copy.before(
        "provision/catalog/data/gpus.yaml",
        "  - model: a100-40gb",
        """  - model: a40
    name: A40
    compute_capability: "8.6"
    machine: x86_64
    cuda_cores: 10752
    memory_gb: 48
    bandwidth_gb_s: 696
    peaks: {fp32: 37.4, tf32: 74.8, bf16: 149.7, fp16: 149.7}
    power_w: 300
    nvenc: true
    nvml_words: [A40]
    sources:
      cuda-gpus: [compute_capability]
      a40-datasheet: [cuda_cores, memory_gb, bandwidth_gb_s, peaks.fp32, peaks.tf32, peaks.bf16, peaks.fp16, power_w, nvenc]

""",
    )
    copy.before(
        "provision/catalog/data/sources.yaml",
        "gpu-memory:",
        """a40-datasheet:
  title: NVIDIA A40 datasheet
  url: https://images.nvidia.com/content/Solutions/data-center/a40/nvidia-a40-datasheet.pdf
  date: 2026-11-21
  grade: documented
""",
    )
    copy.write(
        "tests/toy/test_a40.py",
        """import yaml
from click.testing import CliRunner

from provision.cli import cli
from provision.paths import profiles_dir


def test_a_profile_may_ask_for_it_and_the_resolver_has_a_stack_for_it(tmp_path):
    document = yaml.safe_load((profiles_dir() / "t4-train.yml").read_text())
    document |= {"gpu": {"model": "a40"}, "places": []}
    file = tmp_path / "a40.yml"
    file.write_text(yaml.safe_dump(document))
    checked = CliRunner().invoke(cli, ["profile", "check", str(file)])
    assert checked.exit_code == 0, checked.output
    explained = CliRunner().invoke(cli, ["explain", str(file)])
    assert "open" in explained.output, explained.output
""",
        counted=False,
    )


def rendered_form(copy: Copy) -> None:
    """A list of what is launched."""
    copy.write(
        "provision/render/facts_sheet.py",
        '''"""What is launched, as lines of NAME=VALUE."""

from __future__ import annotations

from provision.clouds.forms import Subject


def render(subject: Subject) -> dict[str, bytes]:
    """The file."""
    order = subject.template
    lines = {"CLOUD": subject.cloud, "REGION": subject.region, "TYPE": order.instance_type, "ROOT_GB": str(order.root_gb)}
    return {"facts.env": "".join(f"{name}={value}\\n" for name, value in lines.items()).encode()}
''',
    )
    copy.after(
        "provision/render/__init__.py",
        '"ansible": Form(',
        '    "facts-sheet": Form("what is launched, as lines of NAME=VALUE", "facts.env", f"{__name__}.facts_sheet"),\n',
    )
    copy.write(
        f"{RENDER_TESTS}/test_facts_sheet.py",
        """from provision.render import render

from .cases import GIVEN, SUBJECTS


def test_it_says_what_up_would_order() -> None:
    for make in SUBJECTS.values():
        subject = make(GIVEN)
        lines = dict(line.split("=", 1) for line in render("facts-sheet", subject)["facts.env"].decode().splitlines())
        assert lines["TYPE"] == subject.template.instance_type
        assert int(lines["ROOT_GB"]) == subject.template.root_gb
""",
    )


CLOUD_WORDS = {  # what is said of GCP, and of a cloud that is GCP under another name
    "GCP": "TOY",
    "Gcp": "Toy",
    "gcp": "toy",
    "gce_": "toy_",
    "GOOGLE_": "TOY_",
    '"iap"': '"toy-tunnel"',
}


def cloud(copy: Copy) -> None:
    """A cloud that is GCP under another name: what anything else knows of GCP by its name it does not know of this one."""
    for folder in ("provision/clouds", "provision/rehearsal", "tests/clouds"):
        for path in sorted((copy.root / folder / "gcp").rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                text = path.read_text()
                for old, new in CLOUD_WORDS.items():
                    text = text.replace(old, new)
                copy.write(str(path.relative_to(copy.root)).replace("gcp", "toy"), text)
    copy.replace("provision/clouds/__init__.py", '"gcp")', '"gcp", "toy")')
    copy.after("provision/rehearsal/__init__.py", '    "gcp": "provision', '    "toy": "provision.rehearsal.toy.emulation:ToyEmulation",\n')
    copy.replace("tests/test_shape.py", '"google": {"clouds/gcp"}', '"google": {"clouds/gcp", "clouds/toy"}')
    documents = (ROOT / "docs/site/examples.yml").read_text().split("---\n")
    own = [
        text.replace("cloud: gcp", "cloud: toy, market: spot" if "{cloud" in text else "cloud: toy")
        for text in documents
        if "cloud: gcp" in text
    ]
    own[0] = own[0].replace("gpu: t4\n", "gpu: t4\n    gpu_count: 1\n")
    copy.after("docs/site/examples.yml", "{prefix: /opt/pytorch}", "---\n" + "---\n".join(own))


TOYS: dict[str, Toy] = {
    "A cloud": Toy(
        {"cloud": "toy"},
        cloud,
        (
            "tests/clouds/toy/test_cloud.py",
            "tests/clouds/toy/test_errors.py",
            "tests/test_shape.py",
            "tests/site/test_reference.py",
            "-k",
            "Contract or errors or every_cloud or siblings or (one_home and toy and sdk) or every_key_of",
        ),
        lint=False,
    ),
    "A GPU": Toy({}, gpu, ("tests/catalog/test_data.py", "tests/toy")),
    "A check": Toy(
        {"subject": "swap"},
        check,
        (*CHECK_TESTS, "tests/verify/test_script.py", f"tests/review/test_controls.py::{KEYS_TEST}"),
    ),
    "A role": Toy(
        {"role": "swap", "subject": "swap"},
        role,
        (
            *CHECK_TESTS,
            *("tests/playbooks/test_roles.py", "tests/converge/test_roles.py", "tests/converge/test_declared.py"),
            *("-k", "swap or syntax or yamllint or every or the_list_equals"),
        ),
    ),
    "A report format": Toy(
        {"format": "csv"},
        report_format,
        ("tests/report/test_reports.py", "tests/report/test_csv.py", "tests/test_docs.py", "-k", "csv or every_format"),
    ),
    "A rule of the organisation": Toy({}, organisation_rule, ("tests/review/test_rules.py", "-k", "max_root_gb or every_rule")),
    "A form to render a profile in": Toy(
        {"form": "facts_sheet"}, rendered_form, (RENDER_TESTS, "-k", "facts_sheet or facts-sheet or registry")
    ),
}


def test_every_recipe_has_a_toy_and_every_toy_a_recipe() -> None:
    assert set(recipes()) == set(TOYS)


@pytest.mark.matrix(of=2)
@pytest.mark.parametrize("title", TOYS)
def test_a_recipe_touches_what_it_says_and_its_tests_pass(title: str, tmp_path: Path) -> None:
    toy = TOYS[title]
    copy = Copy(tmp_path / "copy")
    toy.follow(copy)
    says, touched = listed(title, toy.names), copy.touched()
    for folder in [path for path in says if path.endswith("/")]:
        assert says.pop(folder) == "new"
        inside = [path for path in touched if path.startswith(folder)]
        assert [path for path in inside if touched.pop(path) is not None] == []
        assert inside
    assert set(touched) == set(says)
    for path, lines in touched.items():
        if says[path] == "new":
            assert lines is None, f"{path} exists already"
        else:
            most = re.fullmatch(r"(\d+) lines?", says[path])
            assert most, f"{title}: {path}: {says[path]}"
            assert lines is not None
            assert lines <= int(most[1]), f"{path}: {lines} lines"
    copy.check(*toy.tests, lint=toy.lint)
