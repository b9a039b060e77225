"""What is installed for the GPU: toolkit, libraries, profilers, frameworks, encoders; and OpenCV, which needs no GPU."""

from collections.abc import Iterator, Sequence
from typing import Final

from provision.catalog import read
from provision.catalog.records.extras import Extra
from provision.catalog.rules import TITLES
from provision.profile.model import Profile
from provision.profile.vision import DECODE, DNN, opencv_parts
from provision.verify.checks.base import (
    NO_FFMPEG,
    Check,
    Judge,
    Unasked,
    Verdict,
    always,
    apply,
    computed,
    fails,
    not_compiled,
    passes,
    unknown,
    unless,
    visible_gpus,
    warns,
)
from provision.verify.codes import cuda_hint
from provision.verify.facts import Facts
from provision.verify.facts.gpu import require_gpu
from provision.verify.facts.stack import (
    CudnnFacts,
    CuptiFacts,
    Encode,
    EncodeError,
    EncodersFacts,
    ExtrasFacts,
    FrameworkBuildFacts,
    FrameworkFacts,
    NvccFacts,
    NvccRunFacts,
    OpenCvDevice,
    OpenCvFacts,
    ProfilersFacts,
)

_RESIZED_SUM: Final = 504.0  # the probe's own arithmetic: the means of the 2 x 2 blocks of 0..63, rounded half to even by OpenCV
_TOLERANCE: Final = 16.0  # half a grey level for each of the sixteen pixels, in either direction
_NET_TOTAL: Final = 60228.0  # the probe's network, by numpy
_NET_OFF: Final = 0.01  # a product in TF32 is off by a thousandth
_LUMA: Final = (60.0, 180.0)  # of the probe's video; the encoder keeps them exactly
_LUMA_OFF: Final = 3.0
_PRODUCT: Final = 256.0**3
_ADDED: Final = 65535 * 65536 // 2  # each of the probe's 65536 threads adds its number
_OF_THE_IMAGE: Final = "it is the image's own: choose another image, or remove stack.python.prefix, so that gpuprov installs PyTorch"
_BY_VERIFY: Final = "`gpuprov verify` looks there; the probe by hand knows no profile"
_ENCODE: Final = "ffmpeg -f lavfi -i color=s=256x256 -frames:v 1 -c:v h264_nvenc -f null -"
_ENCODE_HINTS: Final[dict[EncodeError, str]] = {
    "no-library": "install the driver's encoding library, libnvidia-encode",
    "no-driver": "install the driver's user space: it is missing",
    "old-driver": "ffmpeg is newer than the driver: use the distribution's ffmpeg, or a newer driver",
    "no-encoder": "this GPU has no encoder, or none for this frame",
    "busy": "the limit of sessions is reached, or the memory is full: see which programs encode, and try again",
    "other": f"try `{_ENCODE}` on the host",
}


def _nvcc(facts: Facts, profile: Profile) -> Verdict:
    release = profile.stack.cuda
    expected = "nvcc" if release == "auto" else f"nvcc {release}"
    compiler = facts.read(NvccFacts).compiler
    if compiler is None:
        return fails(expected, "no nvcc on PATH or in /usr/local/cuda/bin", apply("cuda_toolkit", "installs it"))
    observed = f"{compiler.version} at {compiler.path}, /usr/local/cuda is {compiler.link or 'not there'}"
    if not compiler.link:
        return fails(expected, observed, apply("cuda_toolkit", "links it"))
    if release not in {"auto", compiler.version}:
        return fails(expected, observed, f"install toolkit {release}, or change stack.cuda")
    return passes(expected, observed)


def _nvcc_runs(facts: Facts, profile: Profile) -> Verdict:
    own = f"sm_{read.gpu(profile.gpu.model).compute_capability.replace('.', '')}"
    trial = facts.read(NvccRunFacts)
    expected = f"nvcc compiles a kernel for {' and '.join(trial.gpus or (own,))}, and it computes the right sum on every GPU"
    stopped = not_compiled(expected, trial, own)
    if stopped:
        return stopped
    wrong = []
    for index, device in enumerate(trial.devices):
        if device.error or device.sum != _ADDED:
            wrong.append(f"GPU {index}: {device.error or f'the sum is {device.sum}, not {_ADDED}'}")
        elif device.built_for != device.capability:
            wrong.append(f"GPU {index} is {device.capability}, and code for {device.built_for} ran")
    return computed(expected, trial, wrong, len(trial.devices), visible_gpus(facts, profile))


def _cudnn(facts: Facts, profile: Profile) -> Verdict:
    release = profile.stack.cudnn
    expected = "cuDNN that the loader finds" + ("" if release == "auto" else f", {release}")
    cudnn = facts.read(CudnnFacts)
    if cudnn.version is None:
        return fails(expected, f"the loader finds none (header: {cudnn.header or 'none'})", apply("cudnn", "installs it"))
    version = ".".join(map(str, cudnn.version))
    observed = f"library {version}, header {cudnn.header or 'none'}"
    if release != "auto" and not f"{version}.".startswith(f"{release}."):
        return fails(expected, observed, f"install cuDNN {release}, or change stack.cudnn")
    if cudnn.header and cudnn.header != version:
        return warns(expected, observed, "header and library differ: a program may run with another version than it was compiled for")
    return passes(expected, observed)


def _cupti(facts: Facts, _profile: Profile) -> Verdict:
    expected = "CUPTI: a file, known to the loader, and it loads"
    cupti = facts.read(CuptiFacts)
    observed = f"files: {len(cupti.files)}, in the loader's cache: {len(cupti.cached)}, version {cupti.version or 'none'}"
    if cupti.version is not None:
        return passes(expected, observed)
    if cupti.files:
        return fails(expected, observed, apply("cupti", "configures the loader; then run ldconfig"))
    return fails(expected, observed, apply("cuda_toolkit", "installs it"))


def _profilers(facts: Facts, profile: Profile) -> Verdict:
    names = profile.stack.profilers
    expected = " and ".join(names)
    profilers = facts.read(ProfilersFacts)
    versions = {name: getattr(profilers, name) for name in names}
    observed = ", ".join(f"{name} {version or 'not installed'}" for name, version in versions.items())
    if None in versions.values():
        return fails(expected, observed, apply("nsight", "installs it"))
    if any(profilers.unreadable(name) for name in names):
        return unknown(expected, observed, "run it with --version on the host")
    return passes(expected, observed)


def _state(title: str, build: FrameworkBuildFacts | None, version: str) -> tuple[str, str]:
    """What there is of a framework, and the hint if that is not what the profile asks for; an empty hint if it is."""
    hint = apply(title.lower(), "installs it")
    if build is None:
        return f"no environment for {title}", hint
    if build.error:
        return build.error, hint
    words = f"{build.version}, built for CUDA {build.cuda or 'none'}"
    # What follows a plus says where a build is from; it matters only if the profile names it.
    if version not in {"auto", build.version if "+" in version else build.version.partition("+")[0]}:
        return words, hint
    return (words, "") if build.cuda else (f"{words}: a build for processors only", hint)


def _has(name: str) -> Judge:
    """The judge of a framework on disk: it imports, is built for CUDA and has kernels for the profile's GPU; needs no GPU."""

    def judge(facts: Facts, profile: Profile) -> Verdict:
        title, version, model = TITLES[name], getattr(profile.stack.frameworks, name), profile.gpu.model
        expected = f"{title} imports, is built for CUDA and has kernels for {model.upper()}" + _version(version)
        framework, prefix = facts.read(FrameworkFacts, name), _prefix(profile, name)
        if prefix and framework.home != prefix:
            return unknown(expected, f"the facts are of {framework.home or 'another environment'}", _BY_VERIFY)
        build = framework.build
        words, hint = _state(title, build, version)
        hint = _OF_THE_IMAGE if hint and prefix else hint
        if hint or build is None:
            return fails(expected, words, hint)
        if not build.arch_list:
            return passes(expected, words)
        kernels = ", ".join(build.arch_list)
        if not _runs(f"sm_{read.gpu(model).compute_capability.replace('.', '')}", build.arch_list):
            return fails(expected, f"{words}: kernels for {kernels}", "`gpuprov explain PROFILE pytorch` says which release has them")
        return passes(expected, f"{words}, kernels for {kernels}")

    return judge


def _computes(name: str) -> Judge:
    """The judge of a framework on the GPUs: it computes the right value on every one."""

    def judge(facts: Facts, profile: Profile) -> Verdict:
        title, version = TITLES[name], getattr(profile.stack.frameworks, name)
        gpus = visible_gpus(facts, profile)
        place = _prefix(profile, name) or "/opt/gpuprov/venvs"
        expected = f"{title} in {place}, computing on every GPU" + _version(version)
        framework, prefix = facts.read(FrameworkFacts, name), _prefix(profile, name)
        if prefix and framework.home != prefix:
            return unknown(expected, f"the facts are of {framework.home or 'another environment'}", _BY_VERIFY)
        build = framework.build
        words, hint = _state(title, build, version)
        hint = _OF_THE_IMAGE if hint and prefix else hint
        if hint or build is None:
            return fails(expected, words, hint)
        foreign = [d.capability for d in build.devices if build.arch_list and d.capability and d.capability not in build.arch_list]
        if foreign:
            return fails(expected, f"{words}: no kernels for {', '.join(foreign)}", "install a build whose arch list has this GPU")
        wrong = [d.error or f"computed {d.product}" for d in build.devices if d.product != _PRODUCT]
        if wrong:
            said = "; ".join(wrong)
            hint = cuda_hint(said, "see the error, and the checks driver, skew and gpu-health")
            return fails(expected, f"{words}: {said}", hint)
        if len(build.devices) < gpus:
            observed = f"{words}: computed on {len(build.devices)} of {gpus} GPUs" + (f": {build.message}" if build.message else "")
            return fails(expected, observed, cuda_hint(build.message, "see CUDA_VISIBLE_DEVICES and the driver"))
        return passes(expected, f"{words}: right on every GPU ({len(build.devices)})")

    return judge


def _prefix(profile: Profile, name: str) -> str:
    """The folder of an image's own PyTorch; empty for an environment of gpuprov's."""
    python = profile.stack.python
    return (python.prefix or "").rstrip("/") if python is not None and name == "pytorch" else ""


def _version(version: str) -> str:
    return "" if version == "auto" else f", version {version}"


def _runs(arch: str, kernels: tuple[str, ...]) -> bool:
    """Machine code of the same major and a lower minor runs as well (CUDA C++ Programming Guide, binary compatibility)."""
    major, minor = arch[3:-1], arch[-1]
    return any(a.startswith("sm_") and a[3:-1] == major and a[-1] <= minor for a in kernels)


def _wheels_of(extra: Extra) -> dict[str, set[str]]:
    """The packages that an environment with a component has one of, each with the releases that it may have; empty for any."""
    pins: dict[str, set[str]] = {name: set() for name in extra.wheel.values()}
    for pin in (*extra.requirement.values(), *(release.requirement for release in extra.releases)):
        name, _, release = pin.partition("==")
        pins.setdefault(name, set()).add(release)
    if extra.build:
        pins[extra.build.name] = {extra.build.version}
    return pins


def _components(profile: Profile) -> list[Extra]:
    """The optional components; a part of the driver has a check of its own."""
    return [extra for extra in (read.extras()[name] for name in profile.stack.extras) if extra.how != "driver"]


def _extras(facts: Facts, profile: Profile) -> Verdict:
    extras = _components(profile)
    packages = facts.read(ExtrasFacts)
    expected, observed, missing = [], [], []
    for extra in extras:
        pins = _wheels_of(extra)
        releases = set[str]().union(*pins.values(), {extra.version} - {""})
        environments = [packages.environments.get(where, {}) for where in extra.frameworks]
        versions = {environment[name] for environment in environments for name in pins if name in environment}
        versions |= {packages.dcgm} if extra.unit and packages.dcgm else set()
        expected.append(f"{extra.title} {' or '.join(sorted(releases))}".strip())
        observed.append(f"{extra.title} {' and '.join(sorted(versions)) or 'not installed'}")
        libraries = {release.version.rpartition(".")[0] for release in extra.releases if release.requirement.partition("==")[2] in versions}
        if extra.releases:
            observed[-1] += f" with the library {packages.nvinfer or 'not installed'}"
        if not versions or (releases and not versions <= releases) or (extra.releases and packages.nvinfer not in libraries):
            missing.append(extra.name)
    if missing:
        return fails(", ".join(expected), ", ".join(observed), apply("extras", "installs it"))
    return passes(", ".join(expected), ", ".join(observed))


def _is_resized(total: int | None) -> bool:
    return total is not None and abs(total - _RESIZED_SUM) <= _TOLERANCE


def _opencv(facts: Facts, profile: Profile) -> Verdict:
    arch = read.gpu(profile.gpu.model).compute_capability.replace(".", "")
    cudnn = " and cuDNN" if DNN in opencv_parts(profile) else ""
    own = f", built with CUDA{cudnn} for sm_{arch}" if profile.stack.opencv == "cuda" else ""
    expected = f"OpenCV in /opt/gpuprov/venvs/opencv{own}, and it resizes an image correctly"
    build = facts.read(OpenCvFacts).build
    if build is None or build.error:
        return fails(expected, build.error if build else "no such environment", apply("opencv", "installs it"))
    if not _is_resized(build.sum):
        return fails(expected, f"{build.version}: the sum is {build.sum}, not {_RESIZED_SUM:.0f}", "the wheel does not fit this processor")
    kernels = f" for {', '.join(f'sm_{name}' for name in build.arch_list)}" if build.arch_list else ""
    observed = f"{build.version}, {'with' if build.cuda else 'without'} CUDA{' and cuDNN' if build.cudnn else ''}{kernels}"
    if own and not (build.cuda and arch in build.arch_list and (build.cudnn or DNN not in opencv_parts(profile))):
        return fails(expected, observed, apply("opencv", "builds it"))
    return passes(expected, observed)


def _opencv_cuda(facts: Facts, profile: Profile) -> Verdict:
    parts = opencv_parts(profile)
    words = {DNN: "runs a network with cuDNN", DECODE: "decodes a frame"}
    does = ["resizes an image", *(words[part] for part in parts)]
    expected = f"OpenCV {', '.join(does[:-1])} and {does[-1]} correctly on every GPU"
    gpus = visible_gpus(facts, profile)
    build = facts.read(OpenCvFacts).build
    if build is None or build.error or not build.cuda:
        return fails(expected, "no OpenCV that was built with CUDA", apply("opencv", "builds it"))
    if DNN in parts and not build.cudnn:
        return fails(expected, "dnn: it was built without cuDNN", apply("opencv", "builds it"))
    wrong = [f"GPU {index}: {said}" for index, device in enumerate(build.devices) for said in _wrong_parts(device, parts)]
    if wrong:
        said = "; ".join(wrong)
        return fails(expected, said, cuda_hint(said, "see the error; the usual cause is a driver that is too old for the toolkit"))
    if len(build.devices) < gpus:
        return fails(expected, f"used {len(build.devices)} of {gpus} GPUs", "see CUDA_VISIBLE_DEVICES and the driver")
    return passes(expected, f"{build.version}: {', '.join(('resize', *parts))} right on every GPU ({len(build.devices)})")


def _wrong_parts(device: OpenCvDevice, parts: Sequence[str]) -> Iterator[str]:
    """What is wrong on one GPU, part by part."""
    if not _is_resized(device.sum):
        yield f"resize: {device.error or f'the sum is {device.sum}, not {_RESIZED_SUM:.0f}'}"
        return
    if DNN in parts:
        net = device.dnn
        if net is None or net.error or net.off is None or net.total is None:
            yield f"dnn: {(net and net.error) or 'not tried'}"
        elif net.fell_back:
            yield f"dnn: not on the GPU: {net.fell_back}"
        elif abs(net.total - _NET_TOTAL) > _NET_OFF * _NET_TOTAL or net.off > _NET_OFF:
            yield f"dnn: WRONG result, off by {net.off:.2g} (the processor's adds up to {net.total:.0f}, not {_NET_TOTAL:.0f})"
    if DECODE in parts:
        frame = device.decode
        if frame is None or frame.error or frame.left is None or frame.right is None:
            yield f"decode: {(frame and frame.error) or 'not tried'}"
        elif max(abs(frame.left - _LUMA[0]), abs(frame.right - _LUMA[1])) > _LUMA_OFF:
            yield f"decode: WRONG frame, {frame.left:.0f} and {frame.right:.0f}, not {_LUMA[0]:.0f} and {_LUMA[1]:.0f}"


def _no_nvenc(profile: Profile) -> str:
    # Neither A100 nor H100 and later data-centre chips have an encoder: docs/sources/verification.md §2.10, and the catalogue.
    lacks = read.gpu(profile.gpu.model).nvenc is False
    return NO_FFMPEG(profile) or (f"{profile.gpu.model.upper()} has no NVENC" if lacks else "")


def _nvenc(facts: Facts, profile: Profile) -> Verdict:
    has_encoder = read.gpu(profile.gpu.model).nvenc
    expected = "ffmpeg built with NVENC, and one frame encoded by the GPU"
    require_gpu(facts)
    encoders = facts.read(EncodersFacts)
    if encoders.nvenc is None:
        return fails(expected, "no ffmpeg", apply("ffmpeg", "installs it"))
    if "h264_nvenc" not in encoders.nvenc:
        return fails(expected, f"built without NVENC for H.264: {', '.join(encoders.nvenc) or 'none'}", "use the distribution's ffmpeg")
    if encoders.encode is None:
        return unknown(expected, f"{', '.join(encoders.nvenc)}; no encode was tried", f"try `{_ENCODE}`")
    if encoders.encode.error == "no-encoder" and has_encoder is None:
        observed = f"ffmpeg finds no encoder, and the catalog does not say whether {profile.gpu.model.upper()} has one"
        return unknown(expected, observed, "see NVIDIA's Video Encode and Decode Support Matrix")
    return _encoding(expected, encoders.encode)


def _encoding(expected: str, encode: Encode) -> Verdict:
    """What became of the frame."""
    if encode.error is None:
        return passes(expected, "a frame was encoded" + (f" ({encode.message})" if encode.message else ""))
    observed = f"ffmpeg ended with {encode.code}: {encode.message or 'without a word'}"
    return (warns if encode.error == "busy" else fails)(expected, observed, _ENCODE_HINTS[encode.error])


def _no_framework(name: str) -> Unasked:
    return unless(lambda p: getattr(p.stack.frameworks, name) is not None, f"the profile does not ask for {TITLES[name]}")


def _check(check_id: str, title: str, judge: Judge, role: str | None = None, unasked: Unasked = always) -> Check:
    # Those whose facts import a framework, or start a compiler or an encoder: tier quick leaves them out.
    slow = check_id == "nvcc-runs" or check_id.partition("-")[0] in {"pytorch", "tensorflow", "jax", "nvenc", "opencv"}
    return Check(check_id, title, judge, role=role, needs_gpu=True, tier="standard" if slow else "quick", unasked=unasked)


_NO_CUDNN: Final = unless(lambda p: p.stack.cudnn != "none", "the profile wants no cuDNN beside those of the frameworks")
_NO_PROFILERS: Final = unless(lambda p: p.stack.profilers, "the profile asks for no profilers")
_NO_OPENCV: Final = unless(lambda p: p.stack.opencv != "none", "the profile does not ask for OpenCV")
_NO_OPENCV_CUDA: Final = unless(lambda p: p.stack.opencv == "cuda", "the profile does not ask for OpenCV with CUDA")
CHECKS = (
    _check("nvcc", "the toolkit's compiler is there", _nvcc, "cuda_toolkit"),
    _check("nvcc-runs", "the toolkit compiles a kernel for the GPU, and it computes", _nvcc_runs, "cuda_toolkit"),
    _check("cudnn", "cuDNN is there and loads", _cudnn, "cudnn", _NO_CUDNN),
    _check("cupti", "CUPTI is there and loads", _cupti, "cupti"),
    _check("profilers", "the profilers are there", _profilers, "nsight", _NO_PROFILERS),
    _check("pytorch-installed", "PyTorch imports and has kernels for the GPU", _has("pytorch"), "pytorch", _no_framework("pytorch")),
    _check("pytorch", "PyTorch computes on every GPU", _computes("pytorch"), "pytorch", _no_framework("pytorch")),
    _check(
        "tensorflow-installed", "TensorFlow imports and is built for CUDA", _has("tensorflow"), "tensorflow", _no_framework("tensorflow")
    ),
    _check("tensorflow", "TensorFlow computes on every GPU", _computes("tensorflow"), "tensorflow", _no_framework("tensorflow")),
    _check("jax-installed", "JAX imports and has its CUDA plugin", _has("jax"), "jax", _no_framework("jax")),
    _check("jax", "JAX computes on every GPU", _computes("jax"), "jax", _no_framework("jax")),
    _check(
        "extras", "the optional components are there", _extras, "extras", unless(_components, "the profile asks for no optional components")
    ),
    _check("nvenc", "ffmpeg can use the GPU's encoder", _nvenc, unasked=_no_nvenc),
    Check("opencv", "OpenCV works", _opencv, role="opencv", tier="standard", unasked=_NO_OPENCV),
    _check("opencv-cuda", "OpenCV works on every GPU", _opencv_cuda, "opencv", _NO_OPENCV_CUDA),
)
