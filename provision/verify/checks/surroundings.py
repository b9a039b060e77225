"""What surrounds the stack and may break it later: variables that users set and forget, packages that shadow, the next boot and upgrade.

Sources: docs/sources/verification.md §1b, §2.1 and §7.
"""

import fnmatch
import re
from collections.abc import Sequence
from typing import Final

from provision.profile.model import Profile
from provision.profile.signed import wants_signed
from provision.verify.checks.base import Check, Verdict, dotted, fails, not_applicable, passes, unknown, warns
from provision.verify.facts import Facts, NotObservedError
from provision.verify.facts.gpu import DriverFacts, ModulesFacts, user_space
from provision.verify.facts.stack import ExtrasFacts, NvccFacts
from provision.verify.facts.surroundings import InitramfsFacts, UpgradesFacts, VariablesFacts

_CUDA_FOLDER: Final = re.compile(r"/cuda-(\d+(?:\.\d+)?)(?:/|$)")
# The toolkit's folders; its version is compared.
_TOOLKIT: Final = re.compile(r"/usr/local/cuda(-[\d.]+)?/(lib64|extras/CUPTI/lib64|targets/[\w-]+/lib)/?")
_DRIVERS: Final = re.compile(r"lib(?:cuda|nvidia-ml)\.so\.(\d+\.\d+(?:\.\d+)?)")
# What each does to every program of the host: DCGM's ten, most of which debug or trace, and those that users set for one run and forget.
_DOUBTFUL: Final = {
    "LD_PRELOAD": "another library comes before CUDA's",
    "NVIDIA_TF32_OVERRIDE": "the precision of frameworks is overridden",
    "CUDA_LAUNCH_BLOCKING": "every kernel is waited for",
    "XLA_FLAGS": "XLA compiles otherwise than by default",
    "CUDA_INJECTION32_PATH": "a tracer is loaded",
    "CUDA_INJECTION64_PATH": "a tracer is loaded",
    "CUDA_AUTO_BOOST": "clocks are boosted otherwise than set",
    "CUDA_ENABLE_COREDUMP_ON_EXCEPTION": "a failing kernel writes the GPU's memory to disk",
    "CUDA_COREDUMP_FILE": "a failing kernel writes the GPU's memory to disk",
    "CUDA_DEVICE_WAITS_ON_EXCEPTION": "a failing kernel hangs, for a debugger",
    "CUDA_PROFILE": "everything is profiled",
    "COMPUTE_PROFILE": "everything is profiled",
    "OPENCL_PROFILE": "everything is profiled",
    "NSIGHT_CUDA_DEBUGGER": "a debugger is resident",
}
# Switches: 0 leaves them off.
_SWITCHES: Final = frozenset(
    {"CUDA_LAUNCH_BLOCKING", "CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_PROFILE"}
)
# Since this release the package pynvml only depends on nvidia-ml-py, and PyTorch warns of it; before, its folder hides the module.
_PYNVML_EMPTY: Final = (12,)
_SSH_COMMANDS: Final = "SSH commands"


def _environment(facts: Facts, profile: Profile) -> Verdict:
    expected = "no variable that changes what CUDA does to every program"
    seen = facts.read(VariablesFacts)
    places = {"login shells": seen.login, _SSH_COMMANDS: seen.ssh, "services": seen.service, "/etc/environment": seen.system, **seen.files}
    bad, doubtful = [], []
    for where, variables in places.items():
        for name, value in (variables or {}).items():
            folders = [folder for folder in value.split(":") if folder] if name == "LD_LIBRARY_PATH" else []
            wrong = _breaks(name, value, facts, profile) or _foreign_driver(folders, seen, facts)
            if wrong:
                bad.append(f"{name}={value} in {where}: {wrong}")
            elif before := _before(folders, seen):
                untried = "" if where == _SSH_COMMANDS else "; PyTorch was tried without it"
                doubtful.append(f"{name}={value} in {where}: {before}{untried}")
            elif name == "CUDA_VISIBLE_DEVICES":
                doubtful.append(f"{name}={value} in {where}: GPUs that are added later stay hidden")
            elif name in _DOUBTFUL and value and not (name in _SWITCHES and value == "0"):
                doubtful.append(f"{name}={value} in {where}: {_DOUBTFUL[name]}")
    if bad:
        return fails(
            expected, "; ".join(bad + doubtful), "remove it from /etc/environment, /etc/profile.d and the files of shells, PAM and systemd"
        )
    if doubtful:
        return warns(expected, "; ".join(doubtful), "set it where that one program is started, not for everybody")
    unseen = [where for where, variables in places.items() if variables is None and where != _SSH_COMMANDS]
    unseen += seen.unread
    if unseen:
        return unknown(expected, f"could not be seen: {', '.join(unseen)}", "run the probe as root, on a host with bash")
    by_files = [kind for key, kind in (("login", "login shells"), ("service", "services")) if key in seen.by_files]
    named = any("LD_LIBRARY_PATH" in (variables or {}) for variables in places.values())
    observed = "what LD_LIBRARY_PATH names changes nothing" if named else "none is set"
    return passes(expected, observed + (f"; of {' and '.join(by_files)} only the files were seen" if by_files else ""))


def _breaks(name: str, value: str, facts: Facts, profile: Profile) -> str:
    """Why a value breaks what runs with it; empty when it does not."""
    if name == "CUDA_VISIBLE_DEVICES":
        # The first entry that is not a GPU ends the list: programs see nothing behind -1.
        entries = re.split(r",?\s*-1|NoDevFiles", value)[0].split(",")
        visible, there = len([entry for entry in entries if entry.strip()]), 1 if profile.gpu.mig else profile.gpu.count
        return f"programs see {visible} of {there} GPUs" if visible < there else ""
    if name != "LD_LIBRARY_PATH":
        return ""
    folders = [folder for folder in value.split(":") if folder]
    if any(part == "stubs" for folder in folders for part in folder.split("/")):
        return "the linker's stubs come before the driver's libraries, and every call to them fails"
    others = {match[1] for match in map(_CUDA_FOLDER.search, folders) if match}
    if not others:
        return ""
    compiler = facts.read(NvccFacts).compiler
    if compiler is None:
        return f"it names CUDA {', '.join(sorted(others))}, and no toolkit is installed"
    # A folder may name the major release alone.
    foreign = {other for other in others if not f"{compiler.version}.".startswith(f"{other}.")}
    return f"it names CUDA {', '.join(sorted(foreign))}, and the toolkit is {compiler.version}" if foreign else ""


def _foreign_driver(folders: Sequence[str], seen: VariablesFacts, facts: Facts) -> str:
    """The driver's libraries that come before its own and are of another version; empty where there is none."""
    for folder, there in ((folder, seen.libraries[folder]) for folder in folders if folder in seen.libraries):
        for match in filter(None, map(_DRIVERS.fullmatch, there.files or ())):
            if match[1] != facts.read(DriverFacts).loaded:
                return f"{folder} has {match[0]}, and the loaded driver is {facts.read(DriverFacts).loaded}: CUDA fails with 803 or 804"
    return ""


def _before(folders: Sequence[str], seen: VariablesFacts) -> str:
    """What comes before the libraries that programs were built with; empty where there is nothing, or the toolkit's own."""
    for folder in folders:
        there = seen.libraries.get(folder)
        if _TOOLKIT.fullmatch(folder) or (there and (there.own or there.files == ())):
            continue
        if there is None or there.files is None:
            return f"what is in {folder} was not seen, and comes before the libraries that programs were built with"
        return f"{', '.join(there.files[:5])} in {folder} come before those that programs were built with"
    return ""


def _pynvml(facts: Facts, _profile: Profile) -> Verdict:
    expected = "NVML's Python module comes from nvidia-ml-py, in every environment"
    environments = facts.read(ExtrasFacts).environments
    if not environments:
        return not_applicable("there is no Python environment of gpuprov's")
    versions = {name: packages["pynvml"] for name, packages in environments.items() if "pynvml" in packages}
    observed = ", ".join(f"pynvml {version} in {name}" for name, version in sorted(versions.items()))
    hint = "uninstall pynvml there and install nvidia-ml-py again: /opt/gpuprov/venvs/NAME/bin/pip"
    if any(dotted(version)[:1] < _PYNVML_EMPTY for version in versions.values()):
        return fails(expected, f"{observed}: its folder hides the module of nvidia-ml-py", hint)
    if versions:
        return warns(expected, f"{observed}: deprecated, and PyTorch warns of it at each import", hint)
    return passes(expected, f"no package pynvml in the environments: {', '.join(sorted(environments))}")


def _initramfs(facts: Facts, _profile: Profile) -> Verdict:
    expected = "an initramfs that is newer than the option on the performance counters"
    boot = facts.read(InitramfsFacts)
    if boot.option is None:
        return not_applicable("no file in modprobe.d decides on the counters")
    if boot.image is None:
        return unknown(expected, f"{boot.option.path}, and no initramfs of the running kernel in /boot", "see how this host boots")
    observed = f"{boot.image.path} is {{}} than {boot.option.path}"
    # Equal times come from a file system that counts whole seconds; the role writes the option first.
    if boot.image.changed >= boot.option.changed:
        return passes(expected, observed.format("newer"))
    hint = "rebuild it: `update-initramfs -u -k all` or `dracut -f --regenerate-all`"
    return warns(expected, f"{observed.format('older')}: a driver that is loaded from it has the old setting", hint)


def _every_kernel(facts: Facts, profile: Profile) -> Verdict:
    expected = "the driver's module for every kernel that can be booted"
    kernels = facts.read(ModulesFacts).installed
    if kernels is None:
        msg = "the probe sent no installed kernels"
        raise NotObservedError(msg)
    if not kernels:
        return not_applicable("no kernel is installed on this host: something outside boots it")
    library = user_space(facts)
    serving = {kernel.kernel: kernel.serves(library) for kernel in kernels}
    absent = {kernel.kernel: f"has {kernel.version}, NOT {library}" if kernel.built else "has NOT" for kernel in kernels}
    observed = ", ".join(f"{name} {'has it' if serves else absent[name]}" for name, serves in serving.items())
    if all(serving.values()):
        return passes(expected, observed)
    if wants_signed(profile) and max(kernels, key=lambda kernel: kernel.order).serves(library):
        # Signed modules come for the newest kernel, which is the one that boots by itself.
        return warns(expected, observed, "a boot into an older kernel has no driver: remove it with the package manager")
    hint = "a boot into that kernel has no driver: install its headers, so that DKMS builds the module (`dkms status`), or remove it"
    return fails(expected, observed, hint)


def _upgrades(facts: Facts, _profile: Profile) -> Verdict:
    expected = "no unattended upgrade of the driver"
    upgrades = facts.read(UpgradesFacts)
    # The container toolkit has its own releases, and replaces no driver.
    packages = [name for name in upgrades.packages if "container" not in name]
    if not packages:
        return not_applicable("no package of the driver is installed")
    if not upgrades.unattended:
        return passes(expected, "upgrades are not installed unattended")
    modules = facts.read(ModulesFacts)
    exposed = [name for name in packages if not modules.holds(name) and not _is_excluded(name, upgrades.excluded)]
    if not exposed:
        return passes(expected, f"unattended, and all packages of the driver ({len(packages)}) are held or left out")
    names = ", ".join(exposed[:5]) + (f" and {len(exposed) - 5} more" if len(exposed) > 5 else "")  # noqa: PLR2004 - of a long list
    hint = "hold them (`apt-mark hold`, `dnf versionlock add`), or name them in Unattended-Upgrade::Package-Blacklist"
    return warns(expected, f"unattended upgrades would take {names}", hint)


def _is_excluded(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern leaves a package out: apt's are regular expressions that match from the beginning, dnf's are shell patterns."""
    for pattern in patterns:
        try:
            if fnmatch.fnmatchcase(name, pattern) or re.match(pattern, name):
                return True
        except re.error:
            continue
    return False


CHECKS = (
    Check("environment", "no forgotten variable changes what CUDA does", _environment),
    Check("pynvml", "no package hides NVML's Python module", _pynvml),
    Check("initramfs", "the next boot has the profile's choice on counters", _initramfs, needs_gpu=True),
    Check("every-kernel", "every kernel that can be booted has the driver", _every_kernel, needs_gpu=True),
    Check("upgrades", "no unattended upgrade replaces the driver", _upgrades),
)
