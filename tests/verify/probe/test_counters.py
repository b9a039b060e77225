"""Which file decides on the counters, and as whom and with what result the profiler is run."""

import grp
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from .host import tool

METRICS = "gpu__time_duration.sum  Duration"
REFUSED = "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters"
PERFMON = "0000004000000000"


def test_the_last_file_that_speaks_of_the_counters_decides_and_is_the_one_that_the_initramfs_must_have(
    probe: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    texts = {"/lib/modprobe.d/a.conf": "1", "/etc/modprobe.d/b.conf": "0", "/etc/modprobe.d/c.conf": None}
    paths = {tmp_path / path.rpartition("/")[2]: value for path, value in texts.items()}
    for path, value in paths.items():
        path.write_text(f"options nvidia NVreg_RestrictProfilingToAdminUsers={value}\n" if value else "options nvidia x=1\n")
    monkeypatch.setattr(probe.gpu.glob, "glob", lambda pattern: [str(p) for p in paths] if pattern.startswith("/etc/") else [])
    assert probe.counters.option() == (str(tmp_path / "b.conf"), "0")
    option = probe.surroundings.initramfs()["option"]
    assert option == {"path": str(tmp_path / "b.conf"), "changed": (tmp_path / "b.conf").stat().st_mtime}


@pytest.mark.parametrize(
    ("words", "setting"),
    [
        ("BOOT_IMAGE=/vmlinuz nvidia.NVreg_RestrictProfilingToAdminUsers=0 quiet", "0"),
        ('"nvidia.NVreg_RestrictProfilingToAdminUsers=0x0"', "0"),
        ("nvidia.NVreg_RestrictProfilingToAdminUsers=1 nvidia-current.NVreg_RestrictProfilingToAdminUsers=0", "0"),
        ("NVreg_RestrictProfilingToAdminUsers=0 xnvidia.NVreg_RestrictProfilingToAdminUsers=0", "1"),
        ("nvidia.NVreg_RestrictProfilingToAdminUsers=off", "1"),
    ],
)
def test_the_kernels_command_line_comes_after_all_files(probe: Any, tmp_path: Path, monkeypatch: Any, words: str, setting: str) -> None:
    (tmp_path / "a.conf").write_text("options nvidia NVreg_RestrictProfilingToAdminUsers=1\n")
    (tmp_path / "cmdline").write_text(words + "\n")
    monkeypatch.setattr(probe.counters, "MODPROBE", (str(tmp_path),))
    for module in (probe.counters, probe.surroundings):
        monkeypatch.setattr(module, "COMMAND_LINE", str(tmp_path / "cmdline"))
    decides = setting == "0"
    assert probe.counters.option() == (str(tmp_path / ("cmdline" if decides else "a.conf")), setting)
    assert probe.counters.counters()["by_command_line"] is decides
    assert (probe.surroundings.initramfs()["option"] is None) is decides


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=0", "0"),
        ('options nvidia "NVreg_RestrictProfilingToAdminUsers=0"', "0"),  # illinois-scicomp/machine-shop-maintenance, update.sh
        ('options nvidia NVreg_RestrictProfilingToAdminUsers="0"', "0"),
        ('options nvidia NVreg_Other=1 "NVreg_RestrictProfilingToAdminUsers=0" NVreg_Else=2', "0"),
        ("options nvidia-current NVreg_RestrictProfilingToAdminUsers=0", "0"),  # what Debian calls the module
        ("options nvidia \\\n  NVreg_RestrictProfilingToAdminUsers=0", "0"),
        ("\toptions  nvidia   NVreg_RestrictProfilingToAdminUsers=0x0", "0"),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=00", "0"),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=0x10", "16"),  # the kernel's kstrtouint(): 0x is 16, 0 alone 8, else 10
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=0X1F", "31"),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=010", "8"),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=10", "10"),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=0 NVreg_RestrictProfilingToAdminUsers=1", "1"),
        ("# options nvidia NVreg_RestrictProfilingToAdminUsers=0", None),
        ("options nvidia XNVreg_RestrictProfilingToAdminUsers=0", None),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=08", None),
        ("options nvidia NVreg_RestrictProfilingToAdminUsers=off", None),
        ("NVreg_RestrictProfilingToAdminUsers=0", None),  # puppet-magic_castle, issue 348: without the word `options` it is no option
    ],
)
def test_an_option_is_read_as_the_kernel_reads_it(probe: Any, tmp_path: Path, monkeypatch: Any, line: str, setting: str | None) -> None:
    (tmp_path / "a.conf").write_text(f"{line}\n")
    monkeypatch.setattr(probe.counters, "MODPROBE", (str(tmp_path),))
    assert probe.counters.option()[1] == setting


def test_files_of_options_count_by_name_and_hide_those_of_the_same_name(probe: Any, tmp_path: Path, monkeypatch: Any) -> None:
    vendor, own = tmp_path / "usr", tmp_path / "etc"
    for path, value in {vendor / "a.conf": 0, vendor / "z.conf": 1, own / "m.conf": 0, own / "z.conf": None}.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text("" if value is None else f"options nvidia NVreg_RestrictProfilingToAdminUsers={value}\n")
    monkeypatch.setattr(probe.counters, "MODPROBE", (str(vendor), str(own)))
    assert probe.counters.option() == (str(own / "m.conf"), "0")
    (own / "z.conf").unlink()
    assert probe.counters.option() == (str(vendor / "z.conf"), "1")


@pytest.fixture
def asked(probe: Any, bin_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Commands that are not run: each is remembered, and ends as the test says by a word in it."""
    host = SimpleNamespace(uid=1000, ran=[], answers={}, environments=[], limits_s=[])

    def command(argv: list[str], timeout_s: float, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        host.ran.append(argv)
        host.limits_s.append(timeout_s)
        host.environments.append(env)
        answers = [answer for word, answer in host.answers.items() if word in " ".join(argv)]
        answer: tuple[int, str, str] = answers[0] if answers else (0, "", "")
        return answer

    monkeypatch.setattr(probe.counters, "command", command)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))  # the removal of the profiler's folder is one of the commands that are not run
    monkeypatch.setattr(os, "geteuid", lambda: host.uid)
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name={0: "root", 1000: "ada"}[uid]))
    tool(bin_folder, "ncu", "exit 0")
    host.folder = bin_folder
    return host


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((0, METRICS, ""), "open"),
        ((0, f"Device T4\n{METRICS}", ""), "open"),
        ((1, METRICS, ""), "failed"),  # a list does not make up for a failure
        ((0, "", ""), "failed"),
        ((0, "no metric in this line: a__b", ""), "failed"),
        ((0, "", METRICS), "failed"),
        ((0, METRICS, REFUSED), "refused"),
        ((0, f"{METRICS}\n{REFUSED}", ""), "refused"),
        ((1, "", REFUSED), "refused"),
        ((1, "", "==ERROR== no GPU"), "failed"),
        ((127, "", "not found"), "failed"),
    ],
)
def test_only_a_list_of_metrics_without_a_complaint_is_open(probe: Any, answer: tuple[int, str, str], outcome: str) -> None:
    assert probe.counters.ncu_answer(*answer)["outcome"] == outcome


def test_what_ncu_says_is_its_marked_lines_and_short(probe: Any) -> None:
    said = probe.counters.ncu_answer(1, "==PROF== one\nquiet\n", f"Error: two\n==ERROR== {'x' * 400}")["said"]
    assert said.startswith("==PROF== one Error: two ==ERROR== xxx")
    assert len(said) == 300


def test_an_ordinary_user_is_asked_as_she_is(probe: Any, asked: Any) -> None:
    asked.answers["ncu"] = (0, METRICS, "")
    assert probe.counters.counters_as_user() == {"outcome": "open", "user": "ada", "said": ""}
    assert asked.ran[0] == [str(asked.folder / "ncu"), "--query-metrics", "--devices", "0"]
    assert asked.environments[0]["HOME"] == asked.environments[0]["TMPDIR"] != os.environ.get("HOME")
    assert asked.ran[1] == ["rm", "-rf", asked.environments[0]["HOME"]]
    assert asked.limits_s == [60, 10]


def test_root_steps_down_before_ncu_runs(probe: Any, asked: Any) -> None:
    tool(asked.folder, "setpriv", "exit 0")
    asked.uid = 0
    asked.answers["ncu"] = (0, METRICS, "")
    assert probe.counters.counters_as_user() == {"outcome": "open", "user": "nobody", "said": ""}
    down = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"]
    assert asked.ran[:2] == [
        ["chown", "65534:65534", asked.environments[1]["HOME"]],  # not a folder that everybody may write to
        [*down, str(asked.folder / "ncu"), "--query-metrics", "--devices", "0"],
    ]


@pytest.mark.usefixtures("asked")
def test_a_profilers_folder_is_closed_to_everybody_else(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """ncu reads settings and rules, which are Python, from its home: nobody else may put any there."""
    modes: list[int] = []

    def command(_argv: list[str], _timeout_s: float, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        modes.extend([stat.S_IMODE(Path(env["HOME"]).stat().st_mode)] if env else [])
        return 0, METRICS, ""

    monkeypatch.setattr(probe.counters, "command", command)
    assert probe.counters.counters_as_user()["outcome"] == "open"
    assert modes == [0o700]


def test_root_that_cannot_step_down_runs_nothing_and_proves_nothing(probe: Any, asked: Any) -> None:
    asked.uid = 0
    answer = probe.counters.counters_as_user()
    assert (answer["outcome"], answer["user"], asked.ran) == ("root-only", "root", [])


def test_without_ncu_nothing_is_run(probe: Any, asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (asked.folder / "ncu").unlink()
    monkeypatch.setattr(probe.counters.glob, "glob", lambda _: [])
    assert probe.counters.counters_as_user() == {"outcome": "no-ncu", "user": None, "said": ""}
    monkeypatch.setattr(probe.counters.glob, "glob", lambda pattern: ["/opt/nvidia/nsight-compute/2026.1/ncu"] if "opt" in pattern else [])
    assert probe.counters.query_metrics()[0] == "/opt/nvidia/nsight-compute/2026.1/ncu"


@pytest.fixture
def group(probe: Any, asked: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A host with the command for members, and one member, Bo; the probe is Ada's."""
    asked.members = ["bo"]
    asked.answers |= {"/proc/self/status": (0, f"Name:\tcat\nCapEff:\t{PERFMON}\n", ""), "--query-metrics": (0, METRICS, "")}
    asked.answers |= {f"gpuprov-with-counters {option}": (127, "", "failed to execute") for option in probe.counters.OPTIONS}
    asked.has_command = True
    there = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: asked.has_command if path == "/usr/local/bin/with-counters" else there(path))
    monkeypatch.setattr(grp, "getgrnam", lambda name: SimpleNamespace(gr_mem={"gpuprov-counters": asked.members}[name]))
    monkeypatch.setattr(pwd, "getpwnam", lambda name: SimpleNamespace(pw_uid={"bo": 1001}[name], pw_gid=1002, pw_name=name))
    return asked


AS_BO = ["setpriv", "--reuid=1001", "--regid=1002", "--init-groups", "--inh-caps=-all"]


def test_a_member_is_tried_through_the_command_by_root(probe: Any, group: Any) -> None:
    group.uid = 0
    answer = probe.counters.counters_as_group(has_gpu=True)
    assert answer == {"members": ["bo"], "capabilities": PERFMON, "taken": [], "outcome": "open", "said": ""}
    assert group.ran[0] == [*AS_BO, "/usr/local/bin/with-counters", "cat", "/proc/self/status"]
    (own,) = [each for each in group.environments if each]
    assert group.ran[-2] == [*AS_BO, "/usr/local/bin/with-counters", str(group.folder / "ncu"), "--query-metrics", "--devices", "0"]
    assert Path(own["HOME"]).name.startswith("gpuprov-")
    assert (group.ran[-3], group.ran[-1]) == (["chown", "1001:1002", own["HOME"]], ["rm", "-rf", own["HOME"]])
    assert (group.limits_s[0], group.limits_s[-2:]) == (20, [60, 10])


def test_a_member_tries_what_the_helper_takes_of_her(probe: Any, group: Any) -> None:
    group.uid = 0
    helper = [*AS_BO, "sudo", "-n", "/usr/local/libexec/gpuprov-with-counters"]
    assert probe.counters.counters_as_group(has_gpu=False)["taken"] == []
    assert group.ran[1:3] == [[*helper, option, "true"] for option in probe.counters.OPTIONS]
    assert group.ran[3] == [*AS_BO, "env", "MEMBERS_OWN=1", *helper[len(AS_BO) :], "env"]
    assert group.limits_s == [20] * 4
    # Whatever else than "no such program" an option does, it was read as one.
    for code in (0, 1, 126):
        group.answers["gpuprov-with-counters --version"] = (code, "setpriv from util-linux 2.41", "")
        assert probe.counters.counters_as_group(has_gpu=False)["taken"] == ["--version"]
    group.answers["MEMBERS_OWN=1"] = (0, "PATH=/bin\nMEMBERS_OWN=1\n", "")
    assert probe.counters.counters_as_group(has_gpu=False)["taken"] == ["--version", "MEMBERS_OWN"]
    group.answers["MEMBERS_OWN=1"] = (1, "", "")
    assert probe.counters.counters_as_group(has_gpu=False)["taken"] == ["--version", "MEMBERS_OWN"], "not tried is not kept"


def test_a_member_is_tried_through_sudo_where_that_needs_no_password(probe: Any, group: Any) -> None:
    untried = {"members": ["bo"], "capabilities": None, "taken": None, "outcome": "not-tried", "said": ""}
    assert probe.counters.counters_as_group(has_gpu=True) == untried, "without sudo"
    tool(group.folder, "sudo", "exit 0")
    group.answers["true"] = (1, "", "a password is required")
    assert probe.counters.counters_as_group(has_gpu=True) == untried
    assert (group.ran, group.limits_s) == ([["sudo", "-n", "true"]], [10])
    group.answers["true"] = (0, "", "")
    assert probe.counters.counters_as_group(has_gpu=True)["outcome"] == "open"
    assert group.ran[2] == ["sudo", "-n", *AS_BO, "/usr/local/bin/with-counters", "cat", "/proc/self/status"]
    assert group.ran[-1][:4] == ["sudo", "-n", "rm", "-rf"]


def test_a_member_who_probes_needs_nobody_else(probe: Any, group: Any) -> None:
    group.members = ["bo", "ada"]
    answer = probe.counters.counters_as_group(has_gpu=True)
    assert (answer["members"], answer["outcome"]) == (["ada", "bo"], "open")
    assert group.ran[0] == ["/usr/local/bin/with-counters", "cat", "/proc/self/status"]


def test_without_members_or_the_command_nothing_is_tried(probe: Any, group: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    group.uid, group.members = 0, []
    assert probe.counters.counters_as_group(has_gpu=True)["outcome"] == "not-tried"

    def missing(name: str) -> Any:
        raise KeyError(name)

    monkeypatch.setattr(grp, "getgrnam", missing)
    assert probe.counters.counters_as_group(has_gpu=True)["members"] == []
    group.has_command = False
    assert probe.counters.counters_as_group(has_gpu=True) is None
    assert group.ran == []


def test_a_command_that_fails_gives_a_member_no_capabilities_and_no_try(probe: Any, group: Any) -> None:
    group.uid = 0
    group.answers["/proc/self/status"] = (1, f"CapEff:\t{PERFMON}\n", "not a member")
    answer = probe.counters.counters_as_group(has_gpu=True)
    assert (answer["capabilities"], answer["taken"], answer["outcome"]) == (None, None, "not-tried")
    assert answer["said"].endswith("not a member")
    group.answers["/proc/self/status"] = (1, "", "x" * 400)
    assert probe.counters.counters_as_group(has_gpu=True)["said"] == "x" * 300
    del group.ran[1:]
    assert len(group.ran) == 1


@pytest.mark.parametrize(("has_gpu", "ncu"), [(False, True), (True, False)])
def test_without_a_gpu_or_ncu_a_members_capabilities_are_seen_and_no_more(
    probe: Any, group: Any, monkeypatch: pytest.MonkeyPatch, *, has_gpu: bool, ncu: bool
) -> None:
    group.uid = 0
    monkeypatch.setattr(probe.counters.glob, "glob", lambda _: [])
    if not ncu:
        (group.folder / "ncu").unlink()
    answer = probe.counters.counters_as_group(has_gpu=has_gpu)
    assert (answer["capabilities"], answer["outcome"], answer["said"], len(group.ran)) == (PERFMON, "not-tried", "", 4)


@pytest.mark.parametrize(
    ("devices", "tier", "outcome"),
    [
        ((["0000:00:1e.0"], []), "standard", "open"),
        (([], ["/dev/nvidia0"]), "standard", "open"),
        (([], []), "standard", "no-gpu"),
        ((["0000:00:1e.0"], []), "quick", "not-tried"),
        ((["0000:00:1e.0"], []), "perf", "open"),
    ],
)
def test_the_profiler_is_run_where_there_is_a_gpu_and_not_by_tier_quick(
    probe: Any, monkeypatch: pytest.MonkeyPatch, devices: tuple[list[str], list[str]], tier: str, outcome: str
) -> None:
    monkeypatch.setattr(probe.counters, "pci_devices", lambda: devices[0])
    monkeypatch.setattr(probe.counters.glob, "glob", lambda pattern: devices[1] if pattern == "/dev/nvidia[0-9]*" else [])
    monkeypatch.setattr(probe.counters, "counters_as_user", lambda: {"outcome": "open", "user": "ada", "said": ""})
    monkeypatch.setattr(probe.counters, "counters_as_group", lambda has_gpu: has_gpu)
    monkeypatch.setitem(probe.run.REQUEST, "tier", tier)
    monkeypatch.setattr(probe.counters, "option", lambda: ("/etc/modprobe.d/b.conf", "0"))
    answer = probe.counters.counters()
    assert (answer["as_user"]["outcome"], answer["as_group"], answer["on_disk"]) == (outcome, outcome == "open", "0")
    assert answer["as_user"]["user"] == ("ada" if outcome == "open" else None)


@pytest.mark.parametrize(
    ("params", "live"),
    [
        ("Foo: 1\nRmProfilingAdminOnly: 0\n", "0"),
        ("RmProfilingAdminOnly: 1\n", "1"),
        ("RestrictProfilingToAdminUsers: 1\n", "1"),
        ("Foo: 1\n", None),
        (None, None),
    ],
)
def test_the_drivers_own_readout_has_either_name(probe: Any, monkeypatch: pytest.MonkeyPatch, params: str | None, live: str | None) -> None:
    monkeypatch.setattr(probe.counters, "pci_devices", list)
    monkeypatch.setattr(probe.counters.glob, "glob", lambda _: [])
    monkeypatch.setattr(probe.counters, "read", lambda path: params if path == "/proc/driver/nvidia/params" else None)
    assert probe.counters.counters()["live"] == live
