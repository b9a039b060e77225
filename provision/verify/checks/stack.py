"""What is installed for the GPU: toolkit, libraries, profilers, frameworks; and OpenCV, which needs none."""

from __future__ import annotations

from collections.abc import Callable

from provision.catalog import read
from provision.profile.model import Profile
from provision.verify.checks.base import Check, Verdict, failed, not_asked, passed, require_gpu, unknown, warned
from provision.verify.facts import Facts
from provision.verify.facts.gpu import GpuFacts
from provision.verify.facts.stack import (
    CudnnFacts,
    CuptiFacts,
    Encode,
    EncodersFacts,
    ExtrasFacts,
    FrameworkBuild,
    JaxFacts,
    NvccFacts,
    OpenCvFacts,
    ProfilersFacts,
    PyTorchFacts,
    TensorFlowFacts,
)

__all__ = ["CHECKS"]

_RESIZED_SUM = 504.0  # the probe's own arithmetic: the means of the 2 x 2 blocks of 0..63, rounded half to even by OpenCV
_TOLERANCE = 16.0  # half a grey level for each of the sixteen pixels, in either direction
_PRODUCT = 256.0**3
_ENCODE = "ffmpeg -f lavfi -i color=s=256x256 -frames:v 1 -c:v h264_nvenc -f null -"
_ENCODE_ERRORS = (
    ("Cannot load libnvidia-encode", "install the driver's encoding library, libnvidia-encode"),
    ("Cannot load libcuda", "the driver's user space is not there: install it"),
    ("Driver does not support the required nvenc API", "ffmpeg is newer than the driver: use the distribution's ffmpeg, or a newer driver"),
    ("No capable devices found", "this GPU has no encoder, or not one for this frame"),
)


def _nvcc(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.stack.cuda
    expected = "nvcc" if asked == "auto" else f"nvcc {asked}"
    found = facts.read(NvccFacts).compiler
    if found is None:
        return failed(expected, "no nvcc on PATH or in /usr/local/cuda/bin", "`gpuprov apply HOST --role cuda_toolkit` installs it")
    observed = f"{found.version} at {found.path}, /usr/local/cuda is {found.link or 'not there'}"
    if not found.link:
        return failed(expected, observed, "`gpuprov apply HOST --role cuda_toolkit` links it")
    if asked not in {"auto", found.version}:
        return failed(expected, observed, f"install toolkit {asked}, or change stack.cuda")
    return passed(expected, observed)


def _cudnn(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.stack.cudnn
    if asked == "none":
        return not_asked("the profile wants no cuDNN beside those of the frameworks")
    expected = "cuDNN that the loader finds" + ("" if asked == "auto" else f", {asked}")
    found = facts.read(CudnnFacts)
    if found.library is None:
        return failed(
            expected, f"the loader finds none (header: {found.header or 'none'})", "`gpuprov apply HOST --role cudnn` installs it"
        )
    # The encoding changed with cuDNN 9: docs/sources/verification.md, "CUDA, cuDNN and CUPTI".
    unit = 10_000 if found.library >= 90_000 else 1_000  # noqa: PLR2004
    version = f"{found.library // unit}.{found.library % unit // 100}.{found.library % 100}"
    observed = f"library {version}, header {found.header or 'none'}"
    if asked != "auto" and not f"{version}.".startswith(f"{asked}."):
        return failed(expected, observed, f"install cuDNN {asked}, or change stack.cudnn")
    if found.header and found.header != version:
        return warned(expected, observed, "header and library differ: what is compiled here may not be what runs")
    return passed(expected, observed)


def _cupti(facts: Facts, _profile: Profile) -> Verdict:
    expected = "CUPTI: a file, known to the loader, and it loads"
    found = facts.read(CuptiFacts)
    observed = f"{len(found.files)} files, {len(found.cached)} in the loader's cache, version {found.version or 'none'}"
    if found.version is not None:
        return passed(expected, observed)
    if found.files:
        return failed(expected, observed, "`gpuprov apply HOST --role cupti` tells the loader; then run ldconfig")
    return failed(expected, observed, "`gpuprov apply HOST --role cuda_toolkit` installs it")


def _profilers(facts: Facts, profile: Profile) -> Verdict:
    asked = profile.stack.profilers
    if not asked:
        return not_asked("the profile asks for no profilers")
    expected = " and ".join(asked)
    found = {name: getattr(facts.read(ProfilersFacts), name) for name in asked}
    observed = ", ".join(f"{name} {version or 'not installed'}" for name, version in found.items())
    if any(version is None for version in found.values()):
        return failed(expected, observed, "`gpuprov apply HOST --role nsight` installs it")
    if any(version.startswith("unreadable") for version in found.values() if version):
        return unknown(expected, observed, "run it with --version on the host")
    return passed(expected, observed)


def _judge_framework(name: str, used: FrameworkBuild | None, asked: str, gpus: int) -> Verdict:
    """Computes the right value on every GPU; the environment's name is that of the role."""
    expected = f"{name} in /opt/gpuprov/venvs, computing on every GPU" + ("" if asked == "auto" else f", version {asked}")
    built, problem = _installed(name, used, asked)
    if problem is not None or used is None:
        return failed(expected, built, problem or "")
    foreign = [d.capability for d in used.devices if used.arch_list and d.capability and d.capability not in used.arch_list]
    if foreign:
        return failed(expected, f"{built}: no kernels for {', '.join(foreign)}", "install a build whose arch list has this GPU")
    wrong = [d.error or f"computed {d.product}" for d in used.devices if d.product != _PRODUCT]
    if wrong:
        return failed(expected, f"{built}: {'; '.join(wrong)}", "see the error; drivers that are too old for the build are the usual cause")
    if len(used.devices) < gpus:
        return failed(expected, f"{built}: computed on {len(used.devices)} of {gpus} GPUs", "see CUDA_VISIBLE_DEVICES and the driver")
    return passed(expected, f"{built}: right on {len(used.devices)} GPU(s)")


def _installed(name: str, used: FrameworkBuild | None, asked: str) -> tuple[str, str | None]:
    """What was found of a framework, and what is to be done when it is not what was asked for; None when it is."""
    role = f"`gpuprov apply HOST --role {name.lower()}` installs it"
    if used is None:
        return f"no environment for {name}", role
    if used.error:
        return used.error, role
    built = f"{used.version}, built for CUDA {used.cuda or 'none'}"
    if asked != "auto" and not _is_version(used.version, asked):
        return built, role
    if not used.cuda:
        return f"{built}: a build for processors only", role
    return built, None


def _judge_installed(name: str, used: FrameworkBuild | None, asked: str, gpu: str) -> Verdict:
    """It imports, is built for CUDA, and has kernels for the profile's GPU, as far as it says; no GPU is needed to know."""
    expected = f"{name} imports, is built for CUDA and has kernels for {gpu.upper()}" + ("" if asked == "auto" else f", version {asked}")
    built, problem = _installed(name, used, asked)
    if problem is not None or used is None:
        return failed(expected, built, problem or "")
    arch = f"sm_{read.gpu(gpu).compute_capability.replace('.', '')}"
    if used.arch_list and not _runs(arch, used.arch_list):
        return failed(
            expected, f"{built}: kernels for {', '.join(used.arch_list)}", "`gpuprov explain PROFILE pytorch` says which release has them"
        )
    return passed(expected, built + (f", kernels for {', '.join(used.arch_list)}" if used.arch_list else ""))


def _runs(arch: str, built: tuple[str, ...]) -> bool:
    """Machine code of the same major and a lower minor runs as well (CUDA C++ Programming Guide, binary compatibility)."""
    major, minor = arch[3:-1], arch[-1]
    return any(a.startswith("sm_") and a[3:-1] == major and a[-1] <= minor for a in built)


def _is_version(used: str, asked: str) -> bool:
    """A build says where it is from behind a plus: one that is asked for by it must have it, else it does not matter."""
    return used == asked if "+" in asked else used.partition("+")[0] == asked


def _has(title: str, fact: type[PyTorchFacts | TensorFlowFacts | JaxFacts]) -> Callable[[Facts, Profile], Verdict]:
    """The judge of a framework on disk; the fact has the name that `stack.frameworks` has."""

    def judge(facts: Facts, profile: Profile) -> Verdict:
        asked = getattr(profile.stack.frameworks, fact.name)
        if asked is None:
            return not_asked(f"the profile does not ask for {title}")
        return _judge_installed(title, facts.read(fact).build, asked, profile.gpu.model)

    return judge


def _computes(title: str, fact: type[PyTorchFacts | TensorFlowFacts | JaxFacts]) -> Callable[[Facts, Profile], Verdict]:
    """The judge of a framework on the GPUs."""

    def judge(facts: Facts, profile: Profile) -> Verdict:
        asked = getattr(profile.stack.frameworks, fact.name)
        if asked is None:
            return not_asked(f"the profile does not ask for {title}")
        require_gpu(facts)
        return _judge_framework(title, facts.read(fact).build, asked, max(1, len(facts.read(GpuFacts).nodes)))

    return judge


def _extras(facts: Facts, profile: Profile) -> Verdict:
    asked = [read.extras()[name] for name in profile.stack.extras]
    if not asked:
        return not_asked("the profile asks for no optional components")
    found = facts.read(ExtrasFacts)
    expected, observed, missing = [], [], []
    for extra in asked:
        pins = dict(pin.partition("==")[::2] for pin in (*extra.requirement.values(), *(f"{name}==" for name in extra.wheel.values())))
        wanted = {extra.version} - {""} if extra.how == "packages" else set(pins.values()) - {""}
        held = [found.environments.get(where, {}) for where in extra.frameworks]
        versions = {packages[name] for packages in held for name in pins if name in packages}
        versions |= {found.dcgm} if extra.how == "packages" and found.dcgm else set()
        expected.append(f"{extra.title} {' or '.join(sorted(wanted))}".strip())
        observed.append(f"{extra.title} {' and '.join(sorted(versions)) or 'not installed'}")
        if not versions or (wanted and not versions <= wanted):
            missing.append(extra.name)
    if missing:
        return failed(", ".join(expected), ", ".join(observed), "`gpuprov apply HOST --role extras` installs it")
    return passed(", ".join(expected), ", ".join(observed))


def _is_resized(total: int | None) -> bool:
    return total is not None and abs(total - _RESIZED_SUM) <= _TOLERANCE


def _opencv(facts: Facts, profile: Profile) -> Verdict:
    if profile.stack.opencv == "none":
        return not_asked("the profile does not ask for OpenCV")
    arch = read.gpu(profile.gpu.model).compute_capability.replace(".", "")
    own = f", built with CUDA for sm_{arch}" if profile.stack.opencv == "cuda" else ""
    expected = f"OpenCV in /opt/gpuprov/venvs/opencv{own}, and it resizes an image rightly"
    found = facts.read(OpenCvFacts).build
    role = "`gpuprov apply HOST --role opencv` installs it"
    if found is None:
        return failed(expected, "no such environment", role)
    if found.error:
        return failed(expected, found.error, role)
    if not _is_resized(found.sum):
        return failed(expected, f"{found.version}: the sum is {found.sum}, not {_RESIZED_SUM:.0f}", "the wheel does not fit this processor")
    kernels = f" for {', '.join(f'sm_{name}' for name in found.arch_list)}" if found.arch_list else ""
    observed = f"{found.version}, {'with' if found.cuda else 'without'} CUDA{kernels}"
    if own and not (found.cuda and arch in found.arch_list):
        return failed(expected, observed, "`gpuprov apply HOST --role opencv` builds it")
    return passed(expected, observed)


def _opencv_cuda(facts: Facts, profile: Profile) -> Verdict:
    if profile.stack.opencv != "cuda":
        return not_asked("the profile does not ask for OpenCV with CUDA")
    expected = "OpenCV resizes an image rightly on every GPU"
    require_gpu(facts)
    found, gpus = facts.read(OpenCvFacts).build, max(1, len(facts.read(GpuFacts).nodes))
    if found is None or found.error or not found.cuda:
        return failed(expected, "no OpenCV that was built with CUDA", "`gpuprov apply HOST --role opencv` builds it")
    wrong = [device.error or f"the sum is {device.sum}, not {_RESIZED_SUM:.0f}" for device in found.devices if not _is_resized(device.sum)]
    if wrong:
        return failed(expected, "; ".join(wrong), "see the error; a driver that is too old for the toolkit is the usual cause")
    if len(found.devices) < gpus:
        return failed(expected, f"used {len(found.devices)} of {gpus} GPUs", "see CUDA_VISIBLE_DEVICES and the driver")
    return passed(expected, f"{found.version}: right on {len(found.devices)} GPU(s)")


def _nvenc(facts: Facts, profile: Profile) -> Verdict:
    if not profile.stack.ffmpeg:
        return not_asked("the profile does not ask for ffmpeg")
    # Neither A100 nor H100 and later data-centre chips have an encoder: docs/sources/verification.md §2.10, and the catalogue.
    if profile.gpu.model == "p100" or read.gpu(profile.gpu.model).nvenc is False:
        return not_asked(f"{profile.gpu.model.upper()} has no NVENC")
    expected = "ffmpeg built with NVENC, and one frame encoded by the GPU"
    require_gpu(facts)
    found = facts.read(EncodersFacts)
    if found.nvenc is None:
        return failed(expected, "no ffmpeg", "`gpuprov apply HOST --role ffmpeg` installs it")
    if "h264_nvenc" not in found.nvenc:
        return failed(expected, f"built without NVENC for H.264: {', '.join(found.nvenc) or 'none'}", "use the distribution's ffmpeg")
    if found.encode is None:
        return unknown(expected, f"{', '.join(found.nvenc)}; no encode was tried", f"try `{_ENCODE}`")
    return _encoded(expected, found.encode)


def _encoded(expected: str, encode: Encode) -> Verdict:
    """What became of the frame; ffmpeg's words of libavcodec/nvenc.c, which the exit code does not tell apart."""
    if encode.code == 0:
        return passed(expected, "a frame was encoded" + (f" ({encode.message})" if encode.message else ""))
    observed = f"ffmpeg ended with {encode.code}: {encode.message or 'without a word'}"
    for words, hint in _ENCODE_ERRORS:
        if words in encode.message:
            return failed(expected, observed, hint)
    # All sessions taken, or no memory left for one: the encoder works, and for somebody else at the moment.
    if any(words in encode.message for words in ("out of memory", "incompatible client key", "No free encoding session")):
        return warned(expected, observed, "the limit of sessions is reached, or the memory used up: see who encodes, and look again")
    return failed(expected, observed, f"try `{_ENCODE}` on the host")


def _check(check_id: str, title: str, judge: Callable[[Facts, Profile], Verdict], role: str | None = None) -> Check:
    # Those whose facts import a framework or start an encoder: tier quick leaves them out.
    slow = check_id.partition("-")[0] in {"pytorch", "tensorflow", "jax", "nvenc", "opencv"}
    return Check(check_id, title, judge, role=role, needs_gpu=True, tier="standard" if slow else "quick")


CHECKS = (
    _check("nvcc", "the toolkit's compiler is there", _nvcc, "cuda_toolkit"),
    _check("cudnn", "cuDNN is there and loads", _cudnn, "cudnn"),
    _check("cupti", "CUPTI is there and loads", _cupti, "cupti"),
    _check("profilers", "the profilers are there", _profilers, "nsight"),
    _check("pytorch-installed", "PyTorch imports and has kernels for the GPU", _has("PyTorch", PyTorchFacts), "pytorch"),
    _check("pytorch", "PyTorch computes on every GPU", _computes("PyTorch", PyTorchFacts), "pytorch"),
    _check("tensorflow-installed", "TensorFlow imports and is built for CUDA", _has("TensorFlow", TensorFlowFacts), "tensorflow"),
    _check("tensorflow", "TensorFlow computes on every GPU", _computes("TensorFlow", TensorFlowFacts), "tensorflow"),
    _check("jax-installed", "JAX imports and has its CUDA plugin", _has("JAX", JaxFacts), "jax"),
    _check("jax", "JAX computes on every GPU", _computes("JAX", JaxFacts), "jax"),
    _check("extras", "the optional components are there", _extras, "extras"),
    _check("nvenc", "ffmpeg can use the GPU's encoder", _nvenc),
    Check("opencv", "OpenCV works", _opencv, role="opencv", tier="standard"),
    _check("opencv-cuda", "OpenCV works on every GPU", _opencv_cuda, "opencv"),
)
