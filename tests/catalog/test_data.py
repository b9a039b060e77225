"""The shipped data: its shapes, its sources, what would contradict itself; compared with real artefacts where they are here."""

import gzip
import itertools
import json
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import boto3
import msgspec
import pytest
import yaml

from provision import clouds
from provision.catalog import read, wheels
from provision.catalog.gpu_models import GpuModel
from provision.catalog.records.base import version
from provision.catalog.records.gpus import TensorCores
from provision.clouds.aws import data as aws
from provision.clouds.gcp import data as gcp
from provision.profile.stack import Extra

DATA = Path(__file__).parent.parent / "data"
ROOT = Path(__file__).parents[2]
GPUS = {g.model: g for g in read.gpus().gpus}
COVERED = [*read.gpus().gpus, *read.driver().branches, *read.toolkits().toolkits, *read.cudnn().releases, *read.systems().systems]


def name_of(record: Any) -> str:
    return str(next(getattr(record, n) for n in ("model", "branch", "key", "version") if hasattr(record, n)))


# --- sources ---------------------------------------------------------------------------------------------------------


def used_sources(node: Any) -> Iterator[str]:
    """Every source id that stands anywhere in a file."""
    if isinstance(node, list):
        for item in node:
            yield from used_sources(item)
    for key, value in node.items() if isinstance(node, dict) else ():
        if key in {"source", "zones_source", "opt_in_source", "first_boot_source"}:
            yield value
        elif key in {"sources", "takes", "zone_sources"}:
            yield from value if key == "sources" else value.values()
        else:
            yield from used_sources(value)


@pytest.mark.parametrize("folder", [read.DATA, *(ROOT / "provision/clouds" / cloud / "data" for cloud in clouds.CLOUDS)], ids=str)
def test_every_source_that_is_named_exists_and_every_source_is_named(folder: Path) -> None:
    files = [yaml.safe_load(path.read_text()) for path in folder.glob("*.*") if path.name not in {"sources.yaml", read.PARSED}]
    used = set(used_sources(files))
    for document in files:
        for key in ("prices", "disk_prices", "machine_prices"):  # by source, where they have no key of their own for it
            prices = document.get(key)
            used |= set(prices) - {"source", "regions"} if isinstance(prices, dict) else set()
    assert used == set(yaml.safe_load((folder / "sources.yaml").read_text()))


# What only says which record it is, or how others call it, is not a figure.
NAMES = {
    "GpuRecord": {"model", "name", "machine", "nvml_words"},
    "Branch": {"branch"},
    "Toolkit": {"version"},
    "CudnnRelease": set(),
    "System": {"name", "version", "packages"},
}


@pytest.mark.parametrize("record", COVERED, ids=name_of)
def test_every_figure_of_a_record_has_exactly_one_source(record: Any) -> None:
    defaults = {f.name: f.default for f in msgspec.structs.fields(type(record))}
    figures: set[str] = set()
    for field, value in record.as_dict().items():
        if field == "sources" or field in NAMES[type(record).__name__] or (not value and value is not False) or value == defaults[field]:
            continue
        parts = isinstance(value, dict) and (field == "peaks" or f"{field}.oldest" in str(record.sources))
        figures |= {f"{field}.{part}" for part in value} if parts else {field}
    covered = [figure for fields in record.sources.values() for figure in fields]
    assert sorted(covered) == sorted(figures)


def test_no_source_is_a_file_of_the_repository() -> None:
    """Pages show a source to people who installed gpuprov and do not have the repository."""
    for key, source in clouds.sources().items():
        assert source.url or not re.search(r"\b(docs|tests|provision|playbooks)/", source.title), key


def test_sources_have_dates_that_are_past() -> None:
    for key, source in clouds.sources().items():
        assert source.date.isoformat() <= read.BASE_DATE, key
        assert source.url or source.grade in {"memory", "inferred", "third-party", "measured"}, f"{key}: a document without its address"


def test_a_field_that_nobody_knows_is_refused() -> None:
    plain = GPUS["t4"].as_dict() | {"cuda_coers": 1}
    with pytest.raises(msgspec.ValidationError, match="cuda_coers"):
        msgspec.convert(plain, type(GPUS["t4"]))


# --- contradictions --------------------------------------------------------------------------------------------------


def test_profiles_can_ask_for_exactly_the_gpus_of_the_catalog() -> None:
    assert set(get_args(GpuModel)) == set(GPUS)


def test_every_compute_capability_has_an_architecture() -> None:
    assert {g.compute_capability for g in GPUS.values()} == {t.compute_capability for t in read.gpus().tensor_cores}


RATIOS = [("bf16", "fp16", 1.0), ("tf32", "fp16", 0.5), ("fp8", "fp16", 2.0), ("int8", "fp16", 2.0), ("fp4", "fp8", 2.0)]


@pytest.mark.parametrize("model", GPUS)
def test_peaks_keep_the_ratio_of_their_precisions(model: str) -> None:
    peaks = GPUS[model].peaks
    for one, other, ratio in RATIOS:
        if one in peaks and other in peaks:
            assert peaks[one] / peaks[other] == pytest.approx(ratio, rel=0.03), f"{one} against {other}"
    if "int4" in peaks:  # twice INT8, or, on the L40S, the same: its datasheet says so
        assert peaks["int4"] / peaks["int8"] in {1.0, 2.0}


@pytest.mark.parametrize("model", GPUS)
def test_a_peak_of_a_tensor_precision_needs_tensor_cores_that_take_it(model: str) -> None:
    gpu = GPUS[model]
    takes = next(t for t in read.gpus().tensor_cores if t.compute_capability == gpu.compute_capability).takes
    for precision in {"tf32", "bf16", "fp8", "fp4", "int8", "int4"} & set(gpu.peaks):
        assert precision in takes, precision
    assert "fp64_tensor" not in gpu.peaks or "fp64" in takes


@pytest.mark.parametrize("model", GPUS)
def test_the_peaks_of_cuda_cores_keep_the_rates_of_their_generation(model: str) -> None:
    """FP16 of Pascal is its CUDA cores'; a datasheet rounds FP64 of small cards to two figures."""
    gpu = GPUS[model]
    entry = next(t for t in read.gpus().tensor_cores if t.compute_capability == gpu.compute_capability)
    for precision in {"fp64", "fp16"} & set(gpu.peaks) if not entry.takes else {"fp64"} & set(gpu.peaks):
        rate = float(Fraction(entry.cores[precision]))
        assert gpu.peaks[precision] / gpu.peaks["fp32"] == pytest.approx(rate, rel=0.08), precision


@pytest.mark.parametrize("entry", read.gpus().tensor_cores, ids=lambda entry: entry.compute_capability)
def test_every_generation_says_what_its_cuda_cores_compute_and_where_that_was_read(entry: TensorCores) -> None:
    assert {"fp64", "fp32", "fp16"} <= set(entry.cores) <= {"fp64", "fp32", "fp16", "bf16", "int8"}
    assert entry.cores["fp32"] == "1"
    assert ("int8" in entry.cores) == (version(entry.compute_capability) >= (6, 1)), "dp4a"
    assert ("bf16" in entry.cores) == (version(entry.compute_capability) >= (8, 0))
    assert sorted({name for some in entry.sources.values() for name in some} | {"fp32"}) == sorted({*entry.cores, "int8"})


def test_no_clock_of_a_profile_or_record_is_above_what_was_measured_as_the_maximum() -> None:
    measured = json.loads((DATA / "facts" / "h200-root.json").read_text())["facts"]["nvml"]["value"]["devices"][0]
    assert GPUS["h200"].clocks is not None
    assert GPUS["h200"].clocks.memory_mhz <= measured["max_memory_mhz"]["value"]
    assert GPUS["h200"].clocks.graphics_mhz <= measured["max_graphics_mhz"]["value"]


def test_healthy_figures_lie_below_the_datasheet_and_gates_between_forty_and_a_hundred_percent_of_it() -> None:
    acceptance = read.gpus().acceptance
    for model, healthy in acceptance.healthy.items():
        gpu = GPUS[model]
        assert healthy.settled_tflops is None or healthy.settled_tflops < (healthy.tensor_tflops or 0)
        for measured, peak in ((healthy.tensor_tflops, gpu.peaks.get("fp16")), (healthy.memory_gb_s, gpu.bandwidth_gb_s)):
            if measured is not None:
                assert peak is not None
                assert measured <= peak, f"{model} beats its datasheet"
                assert acceptance.fail_share * measured >= 0.4 * peak, f"{model}: the gate would let half a card pass"


# GB/s that the slot of each card can carry, one way: PCIe generation 3, 4 and 5 with 16 lanes (PCI Express Base Specification).
LINKS = {"v100": 15.76, "a100-40gb": 31.5, "a100-80gb": 31.5, "h100": 63.0, "h200": 63.0}
# GB/s of NVLink, one way: V100 and A100 have 6 x 25 and 12 x 25, H100 and H200 18 x 25, B200 18 x 50 (datasheets count both ways).
NVLINKS = {"v100": 150, "a100-40gb": 300, "a100-80gb": 300, "h100": 450, "h200": 450, "b200": 900, "b300": 900}
# A sum that the switches add up on the way can be up to twice as fast as the links (NCCL's NVLS, from Hopper on).
IN_SWITCH = {"h100", "h200", "b200"}


def test_floors_of_copies_and_gates_of_sums_lie_between_forty_and_a_hundred_percent_of_what_their_links_carry() -> None:
    acceptance = read.gpus().acceptance
    assert 0.4 <= acceptance.fail_share < acceptance.warn_share < acceptance.sibling_share < 1
    assert 0.4 <= acceptance.link_share < 1
    for model, healthy in acceptance.healthy.items():
        if healthy.copies_floor_gb_s is not None:
            assert 0.4 * LINKS[model] <= healthy.copies_floor_gb_s <= LINKS[model], model
        for count, figure in healthy.all_reduce_gb_s.items():
            most = NVLINKS[model] * (2 if model in IN_SWITCH else 1)
            assert figure <= most, f"{count} {model}"
            assert acceptance.fail_share * figure >= 0.4 * NVLINKS[model], f"{count} {model}"
    # The V100s of a host are not all linked alike, so that its rate for two or four of them is not a share of the card's links.
    assert {model: gpu.nvlink_gb_s for model, gpu in GPUS.items() if gpu.nvlink_gb_s} == {m: r for m, r in NVLINKS.items() if m != "v100"}
    assert set(acceptance.all_reduce_reported) <= set(GPUS)
    assert not [m for m in acceptance.all_reduce_reported if acceptance.healthy.get(m) and acceptance.healthy[m].all_reduce_gb_s]


def test_the_shares_of_a_datasheet_are_the_smallest_that_a_measured_card_reaches() -> None:
    acceptance = read.gpus().acceptance
    sheet = acceptance.datasheet
    shares: dict[str, list[float]] = {"tensor": [], "capped": [], "memory": [], "all_reduce": []}
    for model, healthy in acceptance.healthy.items():
        gpu = GPUS[model]
        peak = gpu.peaks.get("bf16" if version(gpu.compute_capability) >= (8,) else "fp16")
        capped = gpu.power_w is not None and gpu.power_w <= sheet.capped_w
        if healthy.tensor_tflops and peak:
            shares["capped" if capped else "tensor"].append(healthy.tensor_tflops / peak)
        if healthy.memory_gb_s and gpu.bandwidth_gb_s:
            shares["memory"].append(healthy.memory_gb_s / gpu.bandwidth_gb_s)
        if gpu.nvlink_gb_s:
            shares["all_reduce"] += [figure / gpu.nvlink_gb_s for figure in healthy.all_reduce_gb_s.values()]
    stated = {"tensor": sheet.tensor, "capped": sheet.tensor_capped, "memory": sheet.memory, "all_reduce": sheet.all_reduce}
    assert {what: math.floor(100 * min(some)) / 100 for what, some in shares.items()} == stated


# A card of which not even the datasheet's figure is known has no gate; a fleet's own figures take its place.
@pytest.mark.parametrize("model", [model for model in GPUS if GPUS[model].machine == "x86_64"])
def test_every_card_has_a_gate_or_is_named_here(model: str) -> None:
    gpu, healthy = GPUS[model], read.gpus().acceptance.healthy.get(model)
    capability = version(gpu.compute_capability)
    precision = "bf16" if capability >= (8,) else "fp16" if capability >= (7,) else "fp32"
    assert (healthy is not None and healthy.tensor_tflops is not None) or (precision in gpu.peaks) == (model != "rtx-pro-4500")
    assert (healthy is not None and healthy.memory_gb_s is not None) or gpu.bandwidth_gb_s is not None


def test_a_toolkit_comes_with_a_driver_that_runs_it_and_versions_only_grow() -> None:
    floors = {f.major: f.driver for f in read.toolkits().driver_floors}
    toolkits = read.toolkits().toolkits
    for toolkit in toolkits:
        assert version(toolkit.driver) >= version(floors[toolkit.major]), toolkit.version
        assert toolkit.package == f"cuda-toolkit-{toolkit.version.replace('.', '-')}"
    for older, newer in itertools.pairwise(toolkits):
        assert version(older.version) < version(newer.version)
        assert version(older.driver) <= version(newer.driver)
        assert older.gcc <= newer.gcc
        assert version(older.compute_capability.oldest) <= version(newer.compute_capability.oldest)
        assert older.ncu is None or newer.ncu is None or version(older.ncu) < version(newer.ncu)


def test_driver_branches_only_drop_old_gpus_and_gain_new_ones() -> None:
    branches = read.driver().branches
    for older, newer in itertools.pairwise(branches):
        assert version(older.branch) < version(newer.branch)
        assert older.cuda_major <= newer.cuda_major
        assert version(older.compute_capability.oldest) <= version(newer.compute_capability.oldest)
        assert version(older.compute_capability.newest) <= version(newer.compute_capability.newest)
    lasting = [b for b in branches if b.designation in {"lts", "production", "feature"}]
    assert all(b.end_of_life for b in lasting), "a branch whose designation is known has an end"


@pytest.mark.parametrize("release", [r for releases in read.frameworks().values() for r in releases], ids=lambda r: f"{r.version}-{r.cuda}")
def test_a_wheel_does_not_need_more_than_its_cuda_gives(release: Any) -> None:
    majors = {t.version: t.major for t in read.toolkits().toolkits} | {"12.3": 12}
    assert int(release.cuda.split(".")[0]) in {f.major for f in read.toolkits().driver_floors}
    newest = {"12.1": "9.0", "12.2": "9.0", "12.4": "9.0", "12.5": "9.0", "12.6": "9.0"}.get(release.cuda)
    if newest:  # a compiler cannot have compiled for what it does not know
        assert max(divmod(a, 10) for a in release.sass) <= version(newest)
    if majors.get(release.cuda) == 13:
        assert min(release.sass) >= 75


# --- against real artefacts ------------------------------------------------------------------------------------------


def moto(name: str) -> Any:
    with resources.files("moto").joinpath(f"ec2/resources/{name}").open("rb") as file:
        return json.loads(gzip.decompress(file.read()))


def test_instance_types_are_those_that_ec2_answers() -> None:
    """moto carries dated answers of EC2's own API; what it has no record of, the catalog says is from elsewhere."""
    answers = moto("instance_types.json.gz")
    by_name = answers if isinstance(answers, dict) else {t["InstanceType"]: t for t in answers}
    with_gpu = {name for name, raw in by_name.items() if raw.get("GpuInfo", {}).get("Gpus")}
    ours = {name: t for name, t in aws.types().items() if t.source == "ec2-api-2026-08"}
    assert set(ours) == with_gpu
    for name, record in ours.items():
        gpu = by_name[name]["GpuInfo"]["Gpus"][0]
        assert (record.gpu_name, record.gpu_mib, record.vcpus) == (
            gpu["Name"],
            gpu["MemoryInfo"]["SizeInMiB"],
            by_name[name]["VCpuInfo"]["DefaultVCpus"],
        )
        assert record.gpus == (gpu["Count"] or gpu["GpuPartitionSize"])
        model = GPUS[record.gpu or ""]
        assert aws.aws().gpu_names[model.model] == gpu["Name"]
        if record.gpus >= 1 and model.model != "v100":  # of which p3dn has the 32 GB variant
            assert model.memory_gb * 1024 == pytest.approx(record.gpu_mib, rel=0.1)


@pytest.mark.parametrize("region", [r for r, record in aws.aws().regions.codes.items() if record.zones])
def test_offerings_are_those_that_ec2_answers(region: str) -> None:
    answers: dict[str, set[int]] = {}
    for offering in moto(f"instance_type_offerings/availability-zone-id/{region}.json.gz"):
        prefix, _, number = offering["Location"].rpartition("-az")
        assert prefix == aws.aws().regions.codes[region].zones
        answers.setdefault(offering["InstanceType"], set()).add(int(number))
    for name, record in aws.types().items():
        if record.source == "ec2-api-2026-08":
            assert set(record.offered.get(region, [])) == answers.get(name, set()), name
    assert not any(name.startswith("p3.") for name in answers)


def test_regions_are_those_of_botocore() -> None:
    assert set(aws.aws().regions.codes) == set(boto3.Session(region_name="us-east-1").get_available_regions("ec2"))


def test_types_that_were_withdrawn_are_still_in_botocores_enum_which_is_no_evidence() -> None:
    """The enum lists p3 to this day: it says what a client may write, not what exists (docs/sources/stack.md §0)."""
    client = boto3.Session().client("ec2", region_name="us-east-1")
    enum = client.meta.service_model.shape_for("InstanceType").enum
    assert {"p3.2xlarge", "p3.8xlarge", "p3.16xlarge"} <= set(enum)
    assert set(aws.types()) <= set(enum)


def test_quota_metrics_are_in_googles_enum() -> None:
    """The enum Quota.metric of compute.v1, discovery revision 20261106 (google-api-python-client 2.202.0), GPU metrics only."""
    known = set(json.loads((DATA / "gcp-quota-metrics.json").read_text()))
    quotas = gcp.gcp().quotas
    assert {quotas.all_regions, *quotas.metrics.values()} <= known
    assert {f"PREEMPTIBLE_{metric}" for metric in quotas.metrics.values()} <= known


def test_gcp_zones_look_like_zones_and_accelerators_have_a_gpu() -> None:
    accelerators = {*gcp.gcp().accelerators.values(), *(machine.accelerator for machine in gcp.gcp().machines)}
    assert set(gcp.gcp().accelerators) | set(aws.aws().gpu_names) <= set(GPUS)
    for accelerator, zones in gcp.gcp().zones.items():
        if accelerator != "source":
            assert accelerator in accelerators
            assert all(re.fullmatch(r"[a-z]+-[a-z]+[0-9]-[a-f]", zone) for zone in zones)


# --- wheels ----------------------------------------------------------------------------------------------------------


def test_every_wheel_set_that_can_be_named_is_shipped_and_no_other() -> None:
    folder = read.DATA / "wheels"
    texts = {path.stem: path.read_text() for path in folder.rglob("*.txt")}
    assert len(set(texts.values())) == len(texts), "python -m tests.catalog.folded"
    same = read.same_wheels(folder)
    assert set(same.values()) <= set(texts)
    assert sorted([*texts, *same]) == sorted(wheel_set.name for wheel_set in wheels.all_sets())


@pytest.mark.parametrize("wheel_set", wheels.all_sets(), ids=lambda s: s.name)
def test_a_wheel_set_holds_what_the_catalog_says_of_its_release(wheel_set: wheels.WheelSet) -> None:
    """The pins that uv resolved from the index's metadata, against the CUDA and cuDNN that the catalog measured in the wheel."""
    pinned = {w.name: w for w in wheels.parse(wheel_set.text() or "")}
    assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for w in pinned.values() for digest in w.sha256)
    assert all(w.sha256 for w in pinned.values())
    framework = wheel_set.name.split("-")[0]
    known = {"torch": read.pytorch(), **read.frameworks()}.get(framework, [])
    if wheel_set.within:
        check_extra(wheel_set, pinned)
        return
    release = next((r for r in known if r.version == pinned[framework].version), None) if framework in pinned else None
    if "-build-" in wheel_set.name:
        assert {f"{name}=={wheel.version}" for name, wheel in pinned.items()} >= set(wheel_set.requirements)
        return
    if framework in read.extras():  # the Python part of a component whose libraries are packages
        assert [f"{w.name}=={w.version}" for w in pinned.values()] == list(wheel_set.requirements)
        return
    if release is None:
        wheel, decoder = read.systems().opencv.wheel_for(wheel_set.python), read.systems().opencv.decoder
        if decoder.name in pinned:
            assert {name: it.version for name, it in pinned.items()} == {decoder.name: decoder.version}
            return
        assert (pinned[wheel.name].version, pinned["numpy"].version) == (wheel.version, wheel.numpy)
        return
    major = release.cuda.split(".")[0]
    cudnn = pinned[f"nvidia-cudnn-cu{major}"].version
    held = wheel_set.name.partition("-cudnn-")[2].rpartition("-")[0]
    assert cudnn == (held or release.cudnn or cudnn)
    runtime = pinned.get(f"nvidia-cuda-runtime-cu{major}") or pinned.get("nvidia-cuda-runtime")
    assert runtime is not None
    assert runtime.version.split(".")[0] == major
    if framework == "torch":
        assert runtime.version.startswith(f"{release.cuda}.")


def check_extra(wheel_set: wheels.WheelSet, pinned: dict[str, wheels.WheelRecord]) -> None:
    """What an extra adds to PyTorch's own wheels: the component at its version, and nothing that they already have."""
    if not pinned:
        assert (wheel_set.text() or "").startswith(wheels.NONE_FIT)
        return
    name, _, release = wheel_set.requirements[0].partition("==")
    assert pinned[name].version == release
    assert not set(pinned) & {w.name for w in wheels.parse(read.closures(wheel_set.within or "") or "")}


def test_extras_are_those_that_a_profile_may_name() -> None:
    assert set(get_args(Extra)) == set(read.extras())
    for extra in read.extras().values():
        assert extra.why or extra.how != "refused"
        assert bool(extra.requirement) == (extra.how == "wheels")
        assert bool(extra.build) == (extra.how == "source")
        assert extra.how in {"packages", "driver"} or not (extra.releases or extra.packages)
        assert [r.version for r in extra.releases] == sorted((r.version for r in extra.releases), key=version, reverse=True)
        assert set(extra.frameworks) <= set(read.frameworks())
