"""A failed task as one line, a kind and a way out."""

from __future__ import annotations

import pytest

from provision.converge.failure import FailureKind, failed_play, failed_task, kind_of, unreachable


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("tar: write error: No space left on device", "disk-full"),
        ("Error: Command '[python3, -m, ensurepip, --upgrade]' returned non-zero exit status 1", "virtualenv"),
        ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (apt-get)", "package-lock"),
        ("E: Unable to acquire the dpkg frontend lock: No such file or directory", "package-lock"),  # "dpkg frontend lock" decides
        ("sudo: a password is required", "sudo"),
        ("E: dpkg was interrupted, you must manually run 'dpkg --configure -a'", "package-database"),
        ("E: Packages need to be removed but remove is disabled.", "package-removal"),
        ("Err:1 http://deb.debian.org: Temporary failure resolving 'deb.debian.org'", "archive-unreachable"),
        ("No package matching 'libcudnn9-cuda-12' is available", "package-missing"),
        ("ERROR: No matching distribution found for torch==2.15.0", "wheel-missing"),
        # pip 23.0.1 at an index that answers with 500, and at one that does not answer.
        (
            "ERROR: Could not find a version that satisfies the requirement numpy==2.2.6 (from versions: none)\nERROR: No matching …",
            "index-silent",
        ),
        ("/bin/sh: 1: /usr/bin/python3: not found", "python-missing"),
        ("something else", "other"),
    ],
)
def test_the_kind_is_read_from_what_programs_print(output: str, kind: FailureKind) -> None:
    assert kind_of(output) == kind


def test_a_failed_task_names_role_task_and_the_last_line_of_the_program() -> None:
    result = {"msg": "non-zero return code", "stderr": "reading\nwrite error: No space left on device\n", "rc": 1}
    error = failed_task("opencv", "Install OpenCV", result, run_dir="/run")
    assert error.message == "role opencv failed at “Install OpenCV”: non-zero return code: write error: No space left on device"
    assert "df -h" in error.hint


def test_of_a_loop_the_failed_item_is_shown() -> None:
    items = [{"msg": "fine"}, {"failed": True, "msg": "Missing sudo password"}]
    error = failed_task("", "Make logins", {"msg": "One or more items failed", "results": items}, run_dir="/run")
    assert error.message == "the play failed at “Make logins”: Missing sudo password"
    assert "sudo -n true" in error.hint


def test_a_roles_own_refusal_already_says_what_to_do() -> None:
    error = failed_task("jax", "Check", {"assertion": "x", "msg": "No package matching is in the lock"}, run_dir="/run")
    assert error.hint == "do what the message says; this task changed nothing"


def test_without_a_known_kind_the_hint_points_to_the_artefacts_and_a_long_message_is_cut() -> None:
    error = failed_task("base", "Wait", {"msg": "x" * 500, "stdout_lines": ["noise"], "_ansible_no_log": False}, run_dir="/home/ada/run")
    assert "/home/ada/run" in error.hint
    assert error.message.endswith("x…")
    assert "noise" not in error.detail
    assert "_ansible_no_log" not in error.detail


def test_a_play_that_never_started_shows_its_error_line() -> None:
    error = failed_play(4, "usage: …\n[ERROR]: couldn't resolve module\nmore\n", run_dir="/run")
    assert error.message == "ansible-playbook ended with 4: [ERROR]: couldn't resolve module"
    assert failed_play(2, "", run_dir="/run").message == "ansible-playbook ended with 2: no output"


def test_a_host_that_stopped_answering_is_named_with_the_task() -> None:
    error = unreachable("lab", "Gather facts", {"msg": "Failed to connect to the host via ssh"})
    assert error.message == "lab stopped answering at “Gather facts”: Failed to connect to the host via ssh"
    assert error.exit_code == 3


# What the programs of public reports printed (NVIDIA/nvidia-docker 1631, deepops 1123 and 1167, compute-gpu-installation 36 and 15,
# open-gpu-kernel-modules 537, rockylinux.org 201, ansible-slurm-appliance 685, compiler-explorer/infra 1722).
REPORTED: list[tuple[str, FailureKind]] = [
    ("W: GPG error: https://nvidia.github.io/x: The following signatures couldn't be verified: NO_PUBKEY DDCAE044F796ECB0", "signature"),
    ("E: The repository 'https://nvidia.github.io/x/ InRelease' is not signed.", "signature"),
    ("W: GPG error: http://x InRelease: The following signatures were invalid: EXPKEYSIG A4B469963BF863CC cudatools", "key-expired"),
    ("E: Release file for http://x/InRelease is not valid yet (invalid for another 3h 2min 1s).", "clock"),
    ("E: Conflicting values set for option Signed-By regarding source https://x/ubuntu2404/x86_64/ /: a.gpg != b.asc", "source-conflict"),
    ("E: Unable to correct problems, you have held broken packages.", "package-conflict"),
    ("The following packages have unmet dependencies:\n nvidia-dkms-580 : Depends: x", "package-conflict"),
    ("trying to overwrite '/usr/lib/libnvidia-ml.so.1', which is also in package libnvidia-compute-535", "package-conflict"),
    ("E: Held packages were changed and -y was used without --allow-change-held-packages.", "package-held"),
    ("E: Unmet dependencies. Try 'apt --fix-broken install' with no packages (or specify a solution).", "package-database"),
    ("All matches were filtered out by modular filtering for argument: nvidia-driver", "package-solver"),
    ("  - nothing provides dkms >= 3.1.8 needed by kmod-nvidia-open-dkms-3:580.95.05-1.el9.noarch", "package-solver"),
    ("Error! Bad return status for module build on kernel: 6.8.0-45-generic (x86_64)", "module-build"),
    ("E: Failed to fetch http://x  Could not connect to x:80 (192.0.2.1), connection timed out", "archive-unreachable"),
]


@pytest.mark.parametrize(("output", "kind"), REPORTED)
def test_what_strangers_reported_has_its_kind_and_a_way_out(output: str, kind: FailureKind) -> None:
    assert kind_of(output) == kind
    error = failed_task("packages", "Install the packages", {"msg": "it failed", "stderr": output}, run_dir="/run")
    assert "Ansible's full output" not in error.hint


def test_the_reason_comes_before_the_command_and_is_not_cut_off() -> None:
    """The shape of ansible.builtin.apt's answer where a package's own script builds the module with another compiler."""
    command = '\'/usr/bin/apt-get -y -o "Dpkg::Options::=--force-confdef" install ' + " ".join(f"'package-{n}=1'" for n in range(60)) + "'"
    result = {
        "msg": f"{command} failed: E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
        "stdout": "Setting up nvidia-dkms-580\nBuilding module:\n"
        "Error! Bad return status for module build on kernel: 6.5.0-1020-aws (x86_64)\n"
        "Consult /var/lib/dkms/nvidia/580.95.05/build/make.log for more information.\n"
        "dpkg: error processing package nvidia-dkms-580 (--configure):\n",
        "stderr": "E: Sub-process /usr/bin/dpkg returned an error code (1)\n",
    }
    error = failed_task("packages", "Install the packages with apt", result, run_dir="/run")
    assert error.kind == "module-build"
    _, _, reason = error.message.partition("”: ")
    assert reason.startswith("Error! Bad return status for module build on kernel: 6.5.0-1020-aws (x86_64); Consult /var/lib/dkms/nvidia/")
    assert "package-59" not in error.message
    assert "make.log" in error.hint


INSTALL = "'/usr/bin/apt-get -y install " + " ".join(f"'package-{n}=1'" for n in range(60)) + "' failed: "
LIBNVIDIA = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"


@pytest.mark.parametrize(
    ("result", "reason", "kind"),
    [
        # What dnf's solver says ends with the cause (ansible-slurm-appliance 685).
        (
            {
                "msg": "Depsolve Error occurred: \n Problem 1: package nvidia-driver-cuda-3:580.95.05-1.el9.x86_64 requires "
                "nvidia-kmod-common = 3:580.95.05, but none of the providers can be installed\n  - package nvidia-kmod-common-3:580 from "
                "gpuprov-nvidia requires nvidia-kmod = 3:580.95.05, but none of the providers can be installed\n  - cannot install the "
                "best candidate for the job\n  - nothing provides dkms >= 3.1.8 needed by kmod-nvidia-open-dkms-3:580.95.05-1.el9.noarch\n"
            },
            "nothing provides dkms >= 3.1.8 needed by kmod-nvidia-open-dkms-3:580.95.05-1.el9.noarch; Problem 1: ",
            "package-solver",
        ),
        # The module dnf has its reasons in a list of their own (rockylinux.org 201).
        (
            {
                "msg": "Failed to install some of the specified packages",
                "failures": ["No package a available.", "All matches were filtered out by modular filtering for argument: nvidia-driver"],
            },
            "All matches were filtered out by modular filtering for argument: nvidia-driver; No package a available.; Failed",
            "package-solver",
        ),
        # The packages that do not fit stand in apt's output, not in its error (deepops 1123).
        (
            {
                "msg": f"{INSTALL}E: Unable to correct problems, you have held broken packages.",
                "stdout": "The following packages have unmet dependencies:\n nvidia-dkms-580 : Depends: nvidia-kernel-common-580 "
                "(= 580.95.05) but 580.82.07 is to be installed\n",
                "stderr": "E: Unable to correct problems, you have held broken packages.\n",
            },
            "nvidia-dkms-580 : Depends: nvidia-kernel-common-580 (= 580.95.05) but 580.82.07 is to be installed; E: Unable to correct",
            "package-conflict",
        ),
        (
            {
                "msg": f"{INSTALL}E: Sub-process /usr/bin/dpkg returned an error code (1)",
                "stdout": "dpkg: error processing archive /var/cache/apt/archives/libnvidia-compute-580_580.95.05_amd64.deb (--unpack):\n"
                f" trying to overwrite '{LIBNVIDIA}', which is also in package libnvidia-compute-535 535.1\n",
            },
            f"trying to overwrite '{LIBNVIDIA}', which is also in package libnvidia-compute-535 535.1; dpkg: error processing",
            "package-conflict",
        ),
    ],
)
def test_the_end_of_a_chain_of_reasons_comes_first(result: dict[str, object], reason: str, kind: FailureKind) -> None:
    error = failed_task("packages", "Install the packages", result, run_dir="/run")
    assert error.message.partition("”: ")[2].startswith(reason)
    assert error.kind == kind


def test_a_long_message_is_cut_and_not_the_last_line_behind_it() -> None:
    error = failed_task("base", "Wait", {"msg": "x" * 500, "stderr": "more\nERROR: the reason\n"}, run_dir="/run")
    assert error.message.endswith("x…: ERROR: the reason")
    assert len(error.message.partition("”: ")[2]) == 300
    assert failed_task("base", "Wait", {"msg": "x" * 500, "stderr": "y" * 290}, run_dir="/run").message.endswith("x…: " + "y" * 257 + "…")
