"""From a profile to its lock: what is known is exact, what is not known is said, and the shipped locks hold."""

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
import yaml

from provision import clouds
from provision.catalog import overlay, read
from provision.catalog.conflict import Conflict, Remedy
from provision.clouds import search
from provision.errors import StackConflictError
from provision.profile import load, lockfile
from provision.profile.exact import Exact
from provision.profile.lock import applied, build
from provision.profile.locked import pin
from provision.profile.model import Profile
from provision.profile.packages import Names, system_of

TODAY = dt.date(2026, 11, 21)
SHIPPED = ["t4-train", "v100-train"]


def profile(name: str = "t4-train", **changes: object) -> Profile:
    """A shipped profile with values changed by dotted key."""
    plain = load.load(load.find(name)).dump()
    for key, value in changes.items():
        *parents, last = key.split("__")
        at = plain
        for parent in parents:
            at = at[parent]
        at[last] = value
    return Profile.model_validate(plain)


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_lock_is_what_would_be_locked_on_the_day_of_the_data(name: str) -> None:
    path = load.find(name)
    assert path.with_name(f"{name}.lock.yml").read_text() == lockfile.dump(build(load.load(path), TODAY))


def test_the_same_input_gives_the_same_bytes() -> None:
    asked = load.load(load.find("t4-train"))
    assert lockfile.dump(build(asked, TODAY)) == lockfile.dump(build(asked, TODAY))


def test_every_wheel_of_a_framework_has_a_hash_and_the_framework_is_among_them() -> None:
    environment = build(load.load(load.find("v100-train")), TODAY).frameworks["pytorch"]
    assert environment.wheel("torch") == environment.version
    assert all(" --hash=sha256:" in line for line in environment.wheels)


def test_what_cannot_be_looked_into_is_unresolved_and_has_no_wheels() -> None:
    lock = build(profile("v100-train", stack__frameworks={"pytorch": "2.14.1+cu126"}), TODAY)
    assert lock.frameworks["pytorch"].wheels == ()
    assert any("never reached" in line for line in lock.unresolved)
    assert any("wheels are not in the catalog" in line for line in lock.warnings)


def test_the_driver_is_named_as_the_system_names_it() -> None:
    on_ubuntu = build(profile(stack__driver_flavour="open"), TODAY).driver
    assert on_ubuntu.packages[:2] == ("libnvidia-compute", "nvidia-dkms-open")
    assert build(profile(), TODAY).driver.packages[:2] == ("libnvidia-compute", "nvidia-dkms")
    assert on_ubuntu.pin == (f"nvidia-driver-pinning-{on_ubuntu.branch}",)
    on_debian = build(profile(stack__driver_flavour="open"), TODAY, system="debian 12").driver
    assert on_debian.packages[:2] == ("nvidia-driver-cuda", "nvidia-kernel-open-dkms")
    assert not any("<" in name for name in [*on_ubuntu.packages, *on_ubuntu.headers, *on_ubuntu.pin])
    assert build(load.load(load.find("v100-train")), TODAY).driver.flavour == "proprietary"


def test_on_machines_whose_gsp_hangs_the_driver_is_proprietary_and_without_its_firmware() -> None:
    """g4dn alone of these; a GPU on another machine has the modules that it would have anyway."""
    elsewhere = [{"cloud": "gcp", "instance_type": "n1-standard-8", "gpu": "t4", "gpu_count": 1, "zones": ["asia-east2-a"]}]
    there, gone, chosen = (
        build(changed, TODAY) for changed in (profile(), profile(places=elsewhere, disks__data=None), profile(stack__driver_flavour="open"))
    )
    assert [(lock.driver.flavour, lock.driver.gsp) for lock in (there, gone, chosen)] == [
        ("proprietary", "off"),
        ("open", "default"),
        ("open", "default"),
    ]
    assert any("AWS's own image loads the proprietary kernel modules" in warning for warning in chosen.warnings)
    assert not any("kernel modules" in warning for warning in there.warnings)


def test_ubuntus_own_packages_carry_their_branch() -> None:
    own = build(profile(sources={"packages": "distribution"}), TODAY)
    assert own.driver.packages[0] == "nvidia-dkms-580-server"
    assert not any("<" in name for name in own.driver.packages)


def test_a_profile_none_of_whose_places_can_be_had_is_refused_with_every_reason() -> None:
    places = [{"cloud": "aws", "regions": ["ap-east-1"], "instance_type": "p3.2xlarge"}]
    with pytest.raises(StackConflictError) as caught:
        build(profile("v100-train", places=places), TODAY)
    assert "p3" in caught.value.message
    assert "p3dn.24xlarge" in caught.value.message
    assert "gpuprov catalog instances --gpu v100" in caught.value.hint


def test_an_image_that_a_refresh_found_is_in_the_lock() -> None:
    before = build(profile(), TODAY)
    assert any("image id" in line for line in before.unresolved)
    overlay.write(overlay.Overlay(clouds={"aws": {"images": {"ap-east-1": {"ubuntu 24.04": "ami-0123456789abcdef0"}}}}))
    located = {p.region: p.image_id for p in build(profile(), TODAY).places}
    assert located["ap-east-1"] == "ami-0123456789abcdef0"
    assert None in located.values()


def test_pinning_closes_every_open_choice() -> None:
    asked = profile()
    lock = build(asked, TODAY)
    pinned = pin(asked, lock)
    assert pinned.stack.driver == lock.driver.branch
    assert pinned.stack.cuda == lock.cuda.version
    assert "auto" not in pinned.stack.model_dump(mode="json").values()
    assert pin(pinned, lock) == pinned


def test_the_resolved_gcc_is_one_that_the_toolkit_s_headers_accept() -> None:
    lock = build(profile(), TODAY)
    toolkit = next(t for t in read.toolkits().toolkits if t.version == lock.cuda.version)
    assert 0 < lock.cuda.gcc <= toolkit.gcc


@pytest.mark.parametrize(
    ("instance_type", "gpu", "data", "packages"),
    [
        ("g6.xlarge", "l4", {"source": "instance-store", "mount": "/data"}, ()),
        ("g6.8xlarge", "l4", {"source": "instance-store", "mount": "/data"}, ("mdadm",)),
        ("g6.8xlarge", "l4", {"source": "instance-store", "mount": "/data", "filesystem": "xfs"}, ("xfsprogs", "mdadm")),
        ("g6.8xlarge", "l4", {"source": "volume", "size_gb": 9, "mount": "/data"}, ()),
        ("g6.8xlarge", "l4", None, ()),
    ],
)
def test_what_stripes_disks_is_asked_for_where_there_may_be_several(
    instance_type: str, gpu: str, data: dict[str, object] | None, packages: tuple[str, ...]
) -> None:
    places = [{"cloud": "aws", "instance_type": instance_type, "regions": ["us-east-1"]}]
    asked = profile(gpu__model=gpu, gpu__application_clocks="default", disks__data=data, places=places)
    assert build(asked, TODAY).packages.get("storage", ()) == packages


def test_ubuntu_26_is_set_up_from_its_own_repository_and_key_with_a_driver_that_is_there() -> None:
    lock = build(profile("t4-train"), TODAY, system="ubuntu 26.04")
    assert [each.url.split("/")[-3:-1] for each in lock.repositories] == [["ubuntu2604", "x86_64"]]
    assert str(lock.repositories[0].fingerprint).endswith("60DF8A40")
    assert (lock.driver.branch, lock.cuda.version, lock.cuda.gcc) == ("595", "13.4", 15)
    assert lock.driver.packages[:3] == ("libnvidia-compute", "nvidia-dkms", "nvidia-persistenced")
    assert lock.packages["nvidia_driver"][-6].startswith("nvidia-driver-pinning-595")
    assert set(lock.driver.headers) == {"linux-headers-aws", "linux-headers-gcp"}
    assert lock.frameworks["pytorch"].python == "3.14"
    opencv = build(profile(stack__opencv="wheel"), TODAY, system="ubuntu 26.04").opencv.environment
    assert opencv is not None
    assert "numpy==2.3.5" in " ".join(opencv.wheels)
    with pytest.raises(StackConflictError, match="begins with driver 595 and has no 580"):
        build(profile("t4-train", stack__driver="580"), TODAY, system="ubuntu 26.04")


def test_amazon_linux_takes_a_module_stream_and_the_packages_of_its_kernel() -> None:
    lock = build(
        profile("t4-train", places=[P3DN | {"instance_type": "g4dn.xlarge"}], stack__ffmpeg=False), TODAY, system="amazon-linux 2023"
    )
    assert [each.url.split("/")[-3:-1] for each in lock.repositories] == [["amzn2023", "x86_64"]]
    assert str(lock.repositories[0].fingerprint).endswith("D42D0685")
    assert lock.driver.stream == f"nvidia-driver:{lock.driver.branch}-dkms"
    assert lock.driver.packages[0] == "kmod-nvidia-latest-dkms"
    assert lock.driver.headers == ("kernel6.12-devel", "kernel6.12-headers", "kernel6.12-modules-extra")
    assert (lock.cuda.gcc, lock.frameworks["pytorch"].python) == (11, "3.12")
    assert "python3.12-devel" in lock.packages["pytorch"]
    with pytest.raises(StackConflictError, match="begins with driver 570 and has no 550"):
        build(profile("t4-train", stack__driver="550"), TODAY, system="amazon-linux 2023")


@pytest.mark.parametrize(
    ("name", "system", "packages"),
    [
        ("t4-train", None, ("ocl-icd-libopencl1",)),
        ("t4-debian", None, ("ocl-icd-libopencl1", "nvidia-opencl-icd")),
        ("t4-train", "debian 12", ("ocl-icd-libopencl1", "nvidia-opencl-icd")),
        ("t4-train", "rocky 9", ("ocl-icd",)),
    ],
)
def test_opencl_is_a_loader_a_file_and_what_the_driver_lacks_on_that_system(
    name: str, system: str | None, packages: tuple[str, ...]
) -> None:
    lock = build(profile(name, stack__extras=["opencl"]), TODAY, system=system)
    assert lock.packages["extras"] == packages
    assert lock.as_dict()["extras"]["opencl"] == {
        **dict.fromkeys(("environment", "package", "unit")),
        "version": lock.driver.branch,
        "wheels": [],
        "files": {"/etc/OpenCL/vendors/nvidia.icd": "libnvidia-opencl.so.1"},
    }


def test_the_driver_s_part_for_opencl_has_the_driver_s_version_and_not_the_newest() -> None:
    exact = Exact("apt", {"nvidia-opencl-icd": ["580.95.05-1", "580.82.07-1"]})
    exact.driver = "580.82.07"
    names = Names(profile("t4-debian", stack__extras=["opencl"]), system_of("debian 12"), None)
    assert names.extras(12, {}, exact) == ["ocl-icd-libopencl1", "nvidia-opencl-icd=580.82.07-1"]


def test_a_lock_without_opencl_is_what_it_was_before() -> None:
    assert "files" not in build(profile(stack__extras=["dcgm"]), TODAY).as_dict()["extras"]["dcgm"]


CUDA_CV: dict[str, Any] = {"stack__opencv": "cuda", "stack__frameworks": {}, "stack__profilers": [], "stack__extras": []}


def test_opencv_with_cuda_is_a_source_its_tools_and_its_flags_each_exact() -> None:
    lock = build(profile("t4-debian", **CUDA_CV), TODAY)
    made = lock.opencv
    assert made.source == f"opencv-contrib-python==4.12.0.88 --hash=sha256:{read.systems().opencv.build.releases[0].sha256}"
    assert {"-DWITH_CUDA=ON", "-DCUDA_ARCH_BIN=7.5", "-DCUDA_ARCH_PTX="} <= set(made.build_flags)
    assert {"-DCUDA_HOST_COMPILER=/usr/bin/g++-11", f"-DCUDA_TOOLKIT_ROOT_DIR={lock.cuda.home}"} <= set(made.build_flags)
    assert not any("<" in flag or " " in flag for flag in made.build_flags)
    assert made.tools is not None
    assert made.tools.wheel("scikit-build")
    assert all(" --hash=sha256:" in line for line in made.tools.wheels)
    assert made.environment is not None
    assert [line.partition("==")[0] for line in made.environment.wheels] == ["numpy", "pynvvideocodec"]
    assert made.parts == ("decode",), "Debian's own packages have no cuDNN"
    assert "-DWITH_CUDNN=OFF" in made.build_flags
    assert {"libnvidia-encode1", "libnvcuvid1"} <= set(lock.driver.packages)
    assert lock.packages["opencv"] == ("python3-venv", "python3-dev", "pkg-config", "gcc-11", "g++-11")
    assert not any("OpenCV" in line for line in lock.unresolved)


def test_opencv_has_dnn_where_the_profile_has_cudnn_and_decodes_wherever_it_has_cuda() -> None:
    with_cudnn = build(profile(**CUDA_CV), TODAY)
    assert with_cudnn.opencv.parts == ("dnn", "decode")
    assert {"-DWITH_CUDNN=ON", "-DOPENCV_DNN_CUDA=ON", "-DWITH_PROTOBUF=ON"} <= set(with_cudnn.opencv.build_flags)
    assert any("python3,cudev,dnn,cudaarithm" in flag for flag in with_cudnn.opencv.build_flags)
    without = build(profile(**CUDA_CV, stack__cudnn="none"), TODAY)
    assert without.opencv.parts == ("decode",)
    assert not any("dnn" in flag.lower() and flag != "-DWITH_CUDNN=OFF" for flag in without.opencv.build_flags)
    assert without.opencv.key != with_cudnn.opencv.key
    newest = build(profile(**CUDA_CV, stack__cuda="12.9"), TODAY)
    older = build(profile(**CUDA_CV, stack__cuda="12.9", stack__cudnn="9.10.2.21"), TODAY)
    assert (older.cuda, older.opencv.build_flags) == (newest.cuda, newest.opencv.build_flags)
    assert older.cudnn.version != newest.cudnn.version
    assert older.opencv.key != newest.opencv.key, "the wheel is linked with one cuDNN"
    silent = build(profile("t4-debian", **CUDA_CV, stack__ffmpeg=False), TODAY)
    assert {"libnvidia-encode1", "libnvcuvid1"} <= set(silent.driver.packages), "the GPU's decoder is a library of the driver"
    plain = build(profile(), TODAY).opencv
    assert plain.parts == ()
    assert "parts" not in plain.model_dump()


def test_the_key_of_a_built_opencv_depends_on_what_it_is_built_from_and_on_nothing_else() -> None:
    key = build(profile("t4-debian", **CUDA_CV), TODAY).opencv.key
    assert key == "180082291880ef8f695096e973a864341e033b191b2acc3aaea548ab25812a0d"
    same = profile("t4-debian", **CUDA_CV, purpose="another", stack__tools=["git"], limits__deadline_h=2)
    assert build(same, TODAY + dt.timedelta(days=1)).opencv.key == key
    other = {"gpu__model": "v100", "gpu__application_clocks": "default", "gpu__counters": "admin-only"}
    places = [{"cloud": "aws", "instance_type": "p3dn.24xlarge", "regions": ["us-east-1"]}]
    volta = build(profile("t4-debian", **CUDA_CV, **other, places=places), TODAY)
    assert volta.opencv.key not in {key, None}


def test_the_wheel_s_lock_has_no_build() -> None:
    made = build(profile("t4-debian"), TODAY).opencv
    assert (made.source, made.tools, made.key, made.build_flags) == (None, None, None, ())


def test_the_release_of_opencv_is_the_one_that_builds_with_the_toolkit_and_its_architecture_is_always_named() -> None:
    for cuda, release in (("12.9", "4.12.0.88"), ("13.0", "4.14.0.94")):
        made = build(profile(**CUDA_CV, stack__cuda=cuda), TODAY).opencv
        assert made.source is not None
        assert made.source.startswith(f"opencv-contrib-python=={release} --hash=sha256:")
        assert "-DCUDA_ARCH_BIN=7.5" in made.build_flags, "OpenCV cannot detect it with CUDA 13"
        assert made.environment is not None
        assert made.environment.version == release


def test_a_build_that_nobody_tried_is_said_to_be_one() -> None:
    lock = build(profile(stack__opencv="cuda", stack__frameworks={}, stack__profilers=[]), TODAY)
    assert lock.cuda.version == "13.2"
    assert any(line == "whether OpenCV 4.14.0.94 builds on ubuntu 24.04 + CUDA 13.2: it was built nowhere yet" for line in lock.unresolved)
    older = build(profile(stack__opencv="cuda", stack__cuda="12.9", stack__frameworks={}, stack__profilers=[]), TODAY)
    assert any(line.startswith("whether OpenCV 4.12.0.88 builds on ubuntu 24.04 + CUDA 12.9: it was built on") for line in older.unresolved)
    assert build(profile(stack__opencv="cuda", stack__frameworks={}), TODAY, system="rocky 9").packages["opencv"][:2] == (
        "python3.12",
        "python3.12-devel",
    )


# --- a suggestion holds ----------------------------------------------------------------------------------------------

CLOCKS = {"memory_mhz": 5001, "graphics_mhz": 1590}
VOLTA: dict[str, Any] = {"gpu__model": "v100", "gpu__application_clocks": "default", "gpu__counters": "admin-only", "stack__profilers": []}
N1 = {"cloud": "gcp", "instance_type": "n1-standard-8", "zones": ["us-central1-c"]}
P3DN = {"cloud": "aws", "instance_type": "p3dn.24xlarge", "regions": ["us-east-1"]}
REFUSED: dict[str, dict[str, Any]] = {
    "p100-ncu": VOLTA | {"gpu__model": "p100", "stack__profilers": ["nsys", "ncu"], "places": [{**N1, "gpu": "p100"}]},
    "p100-nvprof-ncu": VOLTA | {"gpu__model": "p100", "stack__profilers": ["nvprof", "ncu"], "places": [{**N1, "gpu": "p100"}]},
    "two-refused-extras": {"stack__extras": ["flash-attn", "apex"]},
    "three-refused-extras": {"stack__extras": ["transformer-engine", "flash-attn", "apex", "nccl"]},
    "ncu-and-extra": VOLTA
    | {"gpu__model": "p100", "stack__profilers": ["ncu"], "stack__extras": ["apex"], "places": [{**N1, "gpu": "p100"}]},
    "v100-cuda-13": VOLTA | {"stack__cuda": "13.0", "places": [P3DN]},
    "v100-driver-590": VOLTA | {"stack__driver": "590", "places": [P3DN]},
    "v100-pytorch": VOLTA | {"stack__frameworks": {"pytorch": "2.15.0"}, "places": [P3DN]},
    "v100-rocky-10": VOLTA | {"os": {"name": "rocky", "version": "10"}, "places": [{**N1, "gpu": "v100"}]},
    "v100-group-counters": VOLTA | {"gpu__counters": "group", "places": [P3DN]},
    "jammy-pytorch": {"os": {"name": "ubuntu", "version": "22.04"}, "stack__frameworks": {"pytorch": "2.15.0"}},
    "dali-alone": {"stack__frameworks": {}, "stack__extras": ["dali"]},
    "own-packages-dcgm": {"sources__packages": "distribution", "stack__extras": ["dcgm"]},
    "tensorrt-debian-13": {"os": {"name": "debian", "version": "13"}, "stack__extras": ["tensorrt"]},
    "other-cards-clocks": {
        "gpu__model": "a10g",
        "gpu__application_clocks": CLOCKS,
        "places": [{"cloud": "aws", "instance_type": "g5.xlarge", "regions": ["us-east-1"]}],
    },
    "arm": {"gpu__model": "t4g", "gpu__application_clocks": "default"},
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_suggestion_of_the_resolver_holds_when_it_is_followed(name: str, tmp_path: Path) -> None:
    """Each is written into the file, which is loaded and locked again; another GPU comes with a place that has it."""
    asked = profile(**REFUSED[name])
    with pytest.raises(StackConflictError) as caught:
        build(asked, TODAY)
    conflict = caught.value.conflict
    assert isinstance(conflict, Conflict)
    ways: list[tuple[Remedy, ...]] = [(remedy,) for remedy in conflict.remedies] or [conflict.together]
    assert all(ways), caught.value.hint
    for way in ways:
        assert all(str(remedy) in caught.value.hint for remedy in way)
        data = applied(asked, way)
        for remedy in way:
            if remedy.variable == "gpu":
                offer = search.offers(gpu=remedy.to, cloud="aws")[0]
                data["places"] = [{"cloud": "aws", "instance_type": offer.instance_type, "regions": [offer.regions[0]]}]
        file = tmp_path / "p.yml"
        file.write_text(yaml.safe_dump(data))
        assert build(load.load(file), TODAY)


def test_a_system_that_no_machine_is_launched_with_is_not_suggested() -> None:
    """The systems nearest to Rocky 10 that serve a V100 include RHEL 9, whose images are billed apart and not offered."""
    for place in ({**N1, "gpu": "v100"}, P3DN):
        with pytest.raises(StackConflictError) as caught:
            build(profile(**VOLTA | {"os": {"name": "rocky", "version": "10"}, "places": [place]}), TODAY)
        hints = [tuple(remedy.to.split()) for remedy in caught.value.conflict.remedies if remedy.key == "os"]
        assert hints
        assert set(hints) <= set(clouds.provider(str(place["cloud"])).image_systems())
        assert not [name for name, _ in hints if name == "rhel"]
