"""Known truths of the field, each as a case: what a person who has been burnt by it would check first.

Each case has a number in brackets, [1] to [17]. The facts are in docs/sources/stack.md and docs/sources/clouds.md.
"""

import datetime as dt
import re

import pytest

from provision.catalog import places, read
from provision.catalog.resolve import Conflict, StackRequest, resolve
from provision.catalog.rules import ClockRequest
from provision.errors import StackConflictError

TODAY = dt.date(2026, 11, 21)
JAMMY, NOBLE = "ubuntu 22.04", "ubuntu 24.04"


def values(**asked: object) -> dict[str, str]:
    return resolve(StackRequest(**{"os": NOBLE, **asked}), TODAY).values  # type: ignore[arg-type]


def refused(**asked: object) -> StackConflictError:
    with pytest.raises(StackConflictError) as caught:
        resolve(StackRequest(**{"os": NOBLE, **asked}), TODAY)  # type: ignore[arg-type]
    return caught.value


def core(error: StackConflictError) -> set[str]:
    assert isinstance(error.conflict, Conflict)
    return {demand.key for demand in error.conflict.core}


class TestVoltaAndTuring:
    def test_one_recipe_cannot_serve_both(self) -> None:
        """[1] Open modules of a current branch for the T4, proprietary 580 for the V100."""
        t4, v100 = values(gpu="t4"), values(gpu="v100")
        assert (t4["driver"], t4["flavour"]) == ("595", "open")
        assert (v100["driver"], v100["flavour"]) == ("580", "proprietary")

    def test_cuda_13_does_not_compile_for_volta(self) -> None:
        """[2]"""
        assert values(gpu="v100")["cuda"] == "12.9"
        assert core(refused(gpu="v100", cuda="13.0")) == {"gpu.model", "stack.cuda"}

    def test_580_is_the_last_driver_of_volta(self) -> None:
        """[3]"""
        error = refused(gpu="v100", driver="590")
        assert core(error) == {"gpu.model", "stack.driver"}
        assert "stack.driver to 580" in error.hint

    def test_the_last_cudnn_of_volta(self) -> None:
        """[4]"""
        assert values(gpu="v100")["cudnn"] == "9.10.2.21"
        assert "stack.cudnn to 9.10.2.21" in refused(gpu="v100", cudnn="9.19").hint

    def test_the_last_pytorch_of_volta(self) -> None:
        """[5] The default wheels lost sm_70 with 2.11; the builds of another index kept it until 2.14."""
        assert values(gpu="v100", pytorch="auto")["pytorch"] == "2.10.0"
        error = refused(gpu="v100", pytorch="2.15")
        assert "none for V100 (sm_70)" in error.message
        assert error.hint == "change stack.frameworks.pytorch to 2.10.0, or stack.frameworks.pytorch to 2.14.1+cu126"

    def test_an_index_nobody_looked_into_is_taken_only_when_pinned(self) -> None:
        found = resolve(StackRequest(gpu="v100", os=NOBLE, pytorch="2.14.1+cu126"), TODAY)
        assert found.values["pytorch"] == "2.14.1+cu126"
        assert any("nobody here could look into" in warning for warning in found.warnings)

    def test_tensorflow_runs_on_volta_only_if_its_cudnn_is_held(self) -> None:
        """[6] Its extra asks for a range that resolves to a cuDNN without Volta; on a T4 there is nothing to hold."""
        from provision.catalog.rules import wheel_cudnn

        release = next(r for r in read.tensorflow().releases if r.version == values(gpu="v100", tensorflow="auto")["tensorflow"])
        assert release.version == "2.21.0"
        assert wheel_cudnn(read.gpu("v100"), release) == "9.10.2.21"
        assert wheel_cudnn(read.gpu("t4"), release) is None

    def test_the_profiler_of_volta_is_of_the_12_9_era(self) -> None:
        """[7] ncu of CUDA 13 dropped it, that of 12.9 has it; Pascal has none."""
        cuda = values(gpu="v100", ncu=True)["cuda"]
        assert next(t for t in read.toolkits().toolkits if t.version == cuda).ncu == "2025.2.1"
        assert core(refused(gpu="p100", ncu=True)) == {"gpu.model", "stack.profilers"}

    def test_nvprof_reads_no_metrics_on_the_seeds_own_t4(self) -> None:
        """[8] Below 7.5 only, and it ended with CUDA 12.9."""
        nvprof = read.toolkits().nvprof
        assert (nvprof.metrics_below, nvprof.traces_below, nvprof.last_toolkit) == ("7.5", "8.0", "12.9")


class TestClocksAndCounters:
    def test_a_pair_on_a_t4_needs_application_clocks(self) -> None:
        """[9] Its memory clock cannot be locked; drivers that dropped application clocks cannot hold the pair."""
        pair = ClockRequest("pair", 5001, 1590)
        assert values(gpu="t4", clocks=pair)["clock_mode"] == "application"
        error = refused(gpu="t4", driver="620", clocks=pair)
        assert core(error) == {"gpu.model", "stack.driver", "gpu.application_clocks"}
        assert "stack.driver to 595" in error.hint

    @pytest.mark.parametrize("model", ["a10g", "a100-40gb", "l4", "h100"])
    def test_ampere_and_later_lock_both_clocks(self, model: str) -> None:
        """[10]"""
        clocks = read.gpu(model).clocks
        assert clocks is not None
        assert values(gpu=model, clocks=ClockRequest("pair", clocks.memory_mhz, clocks.graphics_mhz))["clock_mode"] == "locked"

    def test_a_clock_above_the_cards_maximum_is_refused(self) -> None:
        assert core(refused(gpu="t4", clocks=ClockRequest("pair", 5001, 1591))) == {"gpu.model", "gpu.application_clocks"}

    def test_a_group_may_not_read_counters_through_proprietary_modules(self) -> None:
        """CAP_PERFMON is known to the open modules; a V100 has no open ones."""
        assert values(gpu="t4", counters="group")["flavour"] == "open"
        assert core(refused(gpu="v100", counters="group")) == {"gpu.model", "gpu.counters"}


class TestPlaces:
    def test_p3_left_aws_and_the_v100_is_elsewhere(self) -> None:
        """[11]"""
        why = places.why_not_aws("p3.2xlarge", "us-east-1", "on-demand", "v100", 1)
        assert "withdrawn everywhere" in why
        assert "p3dn.24xlarge" in why
        assert "GCP" in why
        assert places.where("aws", "p3.2xlarge") == {}

    def test_hong_kong_has_no_v100_on_either_cloud(self) -> None:
        """[12]"""
        assert not places.offers(gpu="v100", region="ap-east-1")
        assert not places.offers(gpu="v100", region="asia-east2")
        assert {o.instance_type.split(".")[0] for o in places.offers(region="ap-east-1")} == {"g4dn", "g5"}

    def test_a_filter_on_the_count_would_drop_fractional_gpus(self) -> None:
        """[13] EC2 says Count 0; the catalogue says which part of a GPU it is."""
        fractions = {t.type: t.gpus for t in read.aws_types().values() if t.gpus < 1}
        assert fractions == {"g6f.large": 0.125, "g6f.xlarge": 0.125, "g6f.2xlarge": 0.25, "g6f.4xlarge": 0.5, "gr6f.4xlarge": 0.5}
        assert "fraction" in places.why_not_aws("g6f.xlarge", "us-east-1", "on-demand", "l4", 1)

    def test_g4ad_is_amd_and_g5g_is_arm(self) -> None:
        """[14] and [15]"""
        assert "CUDA does not run" in places.why_not_aws("g4ad.xlarge", "us-east-1", "on-demand", "t4", 1)
        assert read.aws_types()["g5g.xlarge"].nvme_gb == []
        assert core(refused(gpu="t4g")) == {"gpu.model"}

    def test_the_largest_g4dn_has_one_gpu(self) -> None:
        """[16]"""
        assert (read.aws_types()["g4dn.16xlarge"].gpus, read.aws_types()["g4dn.12xlarge"].gpus) == (1, 4)
        assert "one GPU" in places.why_not_aws("g4dn.16xlarge", "us-east-1", "on-demand", "t4", 4)

    def test_one_v100_takes_at_most_twelve_cpus(self) -> None:
        """[17]"""
        assert places.why_not_gcp("n1-standard-8", "us-west1-a", "v100", 1) == ""
        assert "at most 12 vCPUs" in places.why_not_gcp("n1-standard-16", "us-west1-a", "v100", 1)
        assert "1, 2, 4" in places.why_not_gcp("n1-standard-8", "us-west1-a", "t4", 3)

    def test_zones_that_lack_a_type_are_not_offered(self) -> None:
        assert "use1-az3" not in places.where("aws", "g4dn.xlarge")["us-east-1"]

    @pytest.mark.parametrize(
        ("instance_type", "market", "code"),
        [
            ("g4dn.xlarge", "on-demand", "L-DB2E81BA"),
            ("p3dn.24xlarge", "on-demand", "L-417A185B"),
            ("gr6.4xlarge", "spot", "L-3819A6DF"),
            ("p4d.24xlarge", "spot", "L-7212CCBC"),
        ],
    )
    def test_quotas_have_their_codes(self, instance_type: str, market: str, code: str) -> None:
        assert places.quota_of("aws", instance_type, None, market) == code

    def test_quotas_of_gcp_are_metrics(self) -> None:
        assert places.quota_of("gcp", "n1-standard-8", "t4", "spot") == "PREEMPTIBLE_NVIDIA_T4_GPUS"
        assert places.quota_of("gcp", "a3-highgpu-8g", "h100", "on-demand") is None, "not in Google's enum, so not guessed"


class TestSystems:
    def test_el_10_begins_after_volta(self) -> None:
        assert core(refused(gpu="v100", os="rocky 10")) == {"gpu.model", "os"}
        assert values(gpu="v100", os="rocky 9")["cuda"] == "12.9"

    def test_the_compiler_must_be_one_that_the_toolkit_accepts(self) -> None:
        """CUDA 12.5 accepts gcc 13, which is Ubuntu 24.04's own; what came before needs an older one."""
        from provision.catalog.rules import gcc_for

        systems = {s.key: s for s in read.systems().systems}
        toolkits = {t.version: t for t in read.toolkits().toolkits}
        assert gcc_for(systems[NOBLE], toolkits["12.5"]) == 13
        assert gcc_for(systems[NOBLE], toolkits["12.2"]) == 12
        assert gcc_for(systems["rocky 10"], toolkits["12.6"]) is None

    def test_python_decides_as_well(self) -> None:
        assert core(refused(gpu="t4", os=JAMMY, pytorch="2.15.0")) == {"os", "stack.frameworks.pytorch"}
        assert values(gpu="t4", os=JAMMY, pytorch="auto")["pytorch"] == "2.14.1"


class TestTime:
    def test_a_branch_is_not_chosen_after_its_end(self) -> None:
        later = resolve(StackRequest(gpu="t4", os=NOBLE), dt.date(2027, 4, 1))
        assert later.values["driver"] == "580"
        assert next(c for c in later.choices if c.variable == "driver").passed_over[-1][1] == "driver 590 is no longer supported"

    def test_a_pinned_branch_past_its_end_is_taken_and_said(self) -> None:
        found = resolve(StackRequest(gpu="t4", os=JAMMY, driver="535"), TODAY)
        assert (found.values["driver"], found.values["cuda"]) == ("535", "12.2")
        assert found.warnings == ("driver 535: its support ended on 2026-06-30",)


class TestWords:
    def test_every_choice_explains_itself(self) -> None:
        found = resolve(StackRequest(gpu="v100", os=JAMMY, pytorch="auto", tensorflow="auto", ncu=True), TODAY)
        assert [c.variable for c in found.choices][:6] == ["gpu", "os", "pytorch", "tensorflow", "jax", "driver"]
        for choice in found.choices:
            assert choice.because or choice.value == "none" or choice.variable in {"flavour", "clock_mode"}, choice
            assert all(why and not re.fullmatch(r"[a-z-]+", why) for _, why in choice.passed_over), "a rule's name is no reason"

    @pytest.mark.parametrize(
        ("asked", "says"),
        [
            ({"cuda": "12.7"}, "12.6"),
            ({"driver": "581"}, "580"),
            ({"pytorch": "2.16"}, "2.15.0"),
            ({"gpu": "t5"}, "t4"),
        ],
    )
    def test_a_version_that_is_not_in_the_catalogue_names_the_nearest(self, asked: dict[str, str], says: str) -> None:
        error = refused(**{"gpu": "t4", **asked})
        assert "is not in the catalogue" in error.message
        assert says in error.hint

    @pytest.mark.parametrize(("asked", "found"), [("580.95.05", "580"), ("580", "580")])
    def test_a_full_driver_version_asks_for_its_branch(self, asked: str, found: str) -> None:
        assert values(gpu="t4", driver=asked)["driver"] == found

    def test_a_version_may_leave_its_last_parts_open_and_no_more(self) -> None:
        assert "is not in the catalogue" in refused(gpu="t4", pytorch="2.1").message, "2.1 is not 2.10"
        assert values(gpu="t4", cudnn="9.10")["cudnn"] == "9.10.2.21"


class TestOptionalComponents:
    def test_what_works_changes_nothing_else(self) -> None:
        plain = values(gpu="t4", pytorch="auto")
        more = values(gpu="t4", pytorch="auto", extras=("dcgm", "nccl", "nvtx", "triton"))
        assert {name: value for name, value in more.items() if name in plain} == plain

    @pytest.mark.parametrize(
        ("asked", "reason", "way"),
        [
            ({"gpu": "t4", "extras": ("flash-attn",)}, "compute capability 8.0", "stack.extras so that it has no flash-attn"),
            ({"gpu": "v100", "extras": ("tensorrt",)}, "TensorRT 10 would need compute capability 7.5", "no tensorrt"),
            ({"gpu": "t4", "extras": ("apex",)}, "torch.amp", "no apex"),
            ({"gpu": "t4", "extras": ("transformer-engine",)}, "source only", "no transformer-engine"),
            ({"gpu": "t4", "extras": ("dali",)}, "the profile asks for no PyTorch", "stack.frameworks.pytorch to"),
            ({"gpu": "t4", "extras": ("nccl",)}, "comes with PyTorch or TensorFlow or JAX", "stack.frameworks.jax to"),
            ({"gpu": "p100", "pytorch": "2.7.1", "extras": ("triton",)}, "serves compute capability 7.0 and later", "no triton"),
            (
                {"gpu": "t4", "os": "debian 12", "packages": "distribution", "driver": "535", "extras": ("dcgm",)},
                "NVIDIA's repositories",
                "no dcgm",
            ),
        ],
    )
    def test_what_does_not_is_refused_with_the_reason(self, asked: dict[str, object], reason: str, way: str) -> None:
        error = refused(**asked)
        assert reason in error.message
        assert way in error.hint

    def test_auto_takes_the_newest_pytorch_that_the_component_goes_with(self) -> None:
        found = values(gpu="t4", pytorch="auto", extras=("cutlass",))["pytorch"]
        text = read.closures(f"torch-{found}-cp312-cutlass")
        assert text
        assert "nvidia-cutlass==" in text

    def test_nvprof_where_it_works_and_a_clear_word_where_it_does_not(self) -> None:
        """It traces below 8.0, reads metrics below 7.5, and CUDA 13 has none."""
        v100 = resolve(StackRequest(gpu="v100", os=NOBLE, nvprof=True), TODAY)
        assert v100.values["cuda"] == "12.9"
        assert v100.warnings == ()
        t4 = resolve(StackRequest(gpu="t4", os=NOBLE, nvprof=True), TODAY)
        assert t4.values["cuda"] == "12.9"
        assert any("reads no metric on" in warning for warning in t4.warnings)
        assert "runs on nothing from compute capability 8.0 on" in refused(gpu="a100-40gb", nvprof=True).message
        assert "CUDA 13.0 has none" in refused(gpu="t4", cuda="13.0", nvprof=True).message


def test_jax_on_volta_has_its_cudnn_held() -> None:
    found = values(gpu="v100", jax="auto")
    assert found["jax"] == "0.12.0.1"
    held = read.closures(f"jax-{found['jax']}-cudnn-9.10.2.21-cp312")
    assert held
    assert "nvidia-cudnn-cu12==9.10.2.21" in held
    assert values(gpu="t4", os=JAMMY, jax="auto")["jax"] == "0.6.2"
