"""Known truths of the field, each as a case: what somebody who was burnt by it would check first.

The sources are in docs/sources/stack.md and docs/sources/clouds.md.
"""

import datetime as dt
import re

import pytest

from provision import clouds
from provision.catalog import read
from provision.catalog.conflict import Conflict
from provision.catalog.resolve import Advice, StackRequest, advice, resolve
from provision.catalog.rules import ClockRequest
from provision.clouds import search
from provision.clouds.aws import data as aws
from provision.errors import StackConflictError
from provision.structs import replace
from tests.clouds.offers import why_not_aws, why_not_gcp

TODAY = dt.date(2026, 11, 21)
JAMMY, NOBLE = "ubuntu 22.04", "ubuntu 24.04"


def values(**request: object) -> dict[str, str]:
    return resolve(StackRequest(**{"os": NOBLE, **request}), TODAY).values  # type: ignore[arg-type]


def refused(**request: object) -> StackConflictError:
    with pytest.raises(StackConflictError) as caught:
        resolve(StackRequest(**{"os": NOBLE, **request}), TODAY)  # type: ignore[arg-type]
    return caught.value


def core(error: StackConflictError) -> set[str]:
    assert isinstance(error.conflict, Conflict)
    return {demand.key for demand in error.conflict.core}


class TestVoltaAndTuring:
    def test_one_recipe_cannot_serve_both(self) -> None:
        """Open modules of a current branch for the T4, proprietary 580 for the V100."""
        t4, v100 = values(gpu="t4"), values(gpu="v100")
        assert (t4["driver"], t4["flavour"]) == ("595", "open")
        assert (v100["driver"], v100["flavour"]) == ("580", "proprietary")

    def test_cuda_13_does_not_compile_for_volta(self) -> None:
        assert values(gpu="v100")["cuda"] == "12.9"
        assert core(refused(gpu="v100", cuda="13.0")) == {"gpu.model", "stack.cuda"}

    def test_580_is_the_last_driver_of_volta(self) -> None:
        error = refused(gpu="v100", driver="590")
        assert core(error) == {"gpu.model", "stack.driver"}
        assert "stack.driver to 580" in error.hint

    def test_the_last_cudnn_of_volta(self) -> None:
        assert values(gpu="v100")["cudnn"] == "9.10.2.21"
        assert "stack.cudnn to 9.10.2.21" in refused(gpu="v100", cudnn="9.19").hint

    def test_the_last_pytorch_of_volta(self) -> None:
        """The default wheels lost sm_70 with 2.11; the builds of another index kept it until 2.14."""
        assert values(gpu="v100", pytorch="auto")["pytorch"] == "2.10.0"
        error = refused(gpu="v100", pytorch="2.15")
        assert "none for V100 (sm_70)" in error.message
        assert error.hint == "change stack.frameworks.pytorch to 2.10.0, or change stack.frameworks.pytorch to 2.14.1+cu126"

    def test_an_index_nobody_looked_into_is_taken_only_when_pinned(self) -> None:
        resolution = resolve(StackRequest(gpu="v100", os=NOBLE, pytorch="2.14.1+cu126"), TODAY)
        assert resolution.values["pytorch"] == "2.14.1+cu126"
        assert [advice.part for advice in resolution.advice] == ["pytorch"]

    def test_the_profiler_of_volta_is_of_the_12_9_era(self) -> None:
        """ncu of CUDA 13 dropped it, that of 12.9 has it; Pascal has none."""
        cuda = values(gpu="v100", ncu=True)["cuda"]
        assert next(t for t in read.toolkits().toolkits if t.version == cuda).ncu == "2025.2.1"
        assert core(refused(gpu="p100", ncu=True)) == {"gpu.model", "stack.profilers"}

    def test_nvprof_reads_no_metrics_on_the_seeds_own_t4(self) -> None:
        """Below 7.5 only, and it ended with CUDA 12.9."""
        nvprof = read.toolkits().nvprof
        assert (nvprof.metrics_below, nvprof.traces_below, nvprof.last_toolkit) == ("7.5", "8.0", "12.9")


class TestClocksAndCounters:
    def test_a_pair_of_a_t4_is_locked_where_the_driver_calls_application_clocks_deprecated(self) -> None:
        """Its memory clock cannot be locked, and need not be: the pair has the one that the card takes under load by itself."""
        pair = ClockRequest("pair", 5001, 1590)
        assert values(gpu="t4", clocks=pair)["clock_mode"] == "locked-graphics"
        assert values(gpu="t4", driver="535", clocks=pair)["clock_mode"] == "application"
        assert values(gpu="p100", clocks=ClockRequest("max"))["clock_mode"] == "application"

    def test_no_driver_from_590_on_has_application_clocks(self) -> None:
        """NVML has none: a real T4 under 595.91.07 says so, and a GB200 under 580.173.02 has them (docs/sources/stack.md §3)."""
        without = {branch.branch for branch in read.driver().branches if not branch.application_clocks}
        assert without == {branch.branch for branch in read.driver().branches if int(branch.branch) >= 590}

    @pytest.mark.parametrize("model", ["a10g", "a100-40gb", "l4", "h100"])
    def test_ampere_and_later_lock_both_clocks(self, model: str) -> None:
        clocks = read.gpu(model).clocks
        assert clocks is not None
        assert values(gpu=model, clocks=ClockRequest("pair", clocks.memory_mhz, clocks.graphics_mhz))["clock_mode"] == "locked"

    def test_a_clock_above_the_cards_maximum_is_refused(self) -> None:
        assert core(refused(gpu="t4", clocks=ClockRequest("pair", 5001, 1591))) == {"gpu.model", "gpu.application_clocks"}

    def test_a_group_may_not_read_counters_through_proprietary_modules(self) -> None:
        """CAP_PERFMON is known to the open modules; a V100 has no open ones."""
        assert values(gpu="t4", counters="group")["flavour"] == "open"
        assert core(refused(gpu="v100", counters="group")) == {"gpu.model", "gpu.counters"}
        assert core(refused(gpu="t4", counters="group", flavour="proprietary")) == {"stack.driver_flavour", "gpu.counters"}

    def test_a_profile_chooses_the_kernel_modules_as_far_as_the_gpu_lets_it(self) -> None:
        assert values(gpu="t4", flavour="proprietary")["flavour"] == "proprietary"
        assert core(refused(gpu="b200", flavour="proprietary")) == {"gpu.model", "stack.driver_flavour"}
        assert core(refused(gpu="v100", flavour="open")) == {"gpu.model", "stack.driver_flavour"}

    def test_the_advice_for_a_machine_is_followed_until_a_demand_needs_the_opposite(self) -> None:
        advised = ("proprietary", "machines of this kind are better off so")
        assert values(gpu="t4", advised=advised)["flavour"] == "proprietary"
        for demand in ({"flavour": "open"}, {"counters": "group"}, {"driver": "615"}):
            resolution = resolve(replace(StackRequest(gpu="t4", os=NOBLE, advised=advised), **demand), TODAY)  # type: ignore[arg-type]
            assert resolution.values["flavour"] == "open"
            assert advised[1] in resolution.warnings, demand

    def test_ubuntus_own_archive_is_locked_at_the_branch_that_stays(self) -> None:
        own = values(gpu="t4", packages="distribution")
        assert (own["driver"], own["cuda"]) == ("580", "12.0")
        assert "becomes an empty package" in refused(gpu="t4", packages="distribution", driver="595").message
        assert (
            "ubuntu 24.04 itself packages driver 580 and 595, not 570" in refused(gpu="t4", packages="distribution", driver="570").message
        )
        elsewhere = refused(gpu="t4", os="debian 12", packages="distribution", driver="595").message
        assert elsewhere.endswith(": debian 12 itself packages driver 535, not 595")  # and nothing of another system's archive
        assert "itself packages CUDA 11.5" in refused(gpu="t4", os=JAMMY, packages="distribution").message


class TestPlaces:
    def test_p3_left_aws_and_the_v100_is_elsewhere(self) -> None:
        why = why_not_aws("p3.2xlarge", "us-east-1", "v100", 1)
        assert "withdrawn everywhere" in why
        assert "p3dn.24xlarge" in why
        assert "GCP" in why
        assert clouds.provider("aws").offered_in("p3.2xlarge") == {}

    def test_hong_kong_has_no_v100_on_either_cloud(self) -> None:
        assert not search.offers(gpu="v100", region="ap-east-1")
        assert not search.offers(gpu="v100", region="asia-east2")
        assert {o.instance_type.split(".")[0] for o in search.offers(region="ap-east-1")} == {"g4dn", "g5"}

    def test_a_filter_on_the_count_would_drop_fractional_gpus(self) -> None:
        """EC2 says Count 0; the catalog says which part of a GPU it is."""
        fractions = {t.type: t.gpus for t in aws.types().values() if t.gpus < 1}
        assert fractions == {"g6f.large": 0.125, "g6f.xlarge": 0.125, "g6f.2xlarge": 0.25, "g6f.4xlarge": 0.5, "gr6f.4xlarge": 0.5}
        assert "needs NVIDIA's licensed GRID driver and a running nvidia-gridd" in why_not_aws("g6f.xlarge", "us-east-1", "l4", 1)
        assert "a running nvidia-gridd" in why_not_aws("gr6f.4xlarge", "us-east-1", "l4", 1)
        assert "nobody signs its modules, so Secure Boot would have to be off" in why_not_aws("gr6f.4xlarge", "us-east-1", "l4", 1)
        assert why_not_aws("g6.xlarge", "us-east-1", "l4", 1) == ""

    def test_g4ad_is_amd_and_g5g_is_arm(self) -> None:
        """and [15]"""
        assert "CUDA does not run" in why_not_aws("g4ad.xlarge", "us-east-1", "t4", 1)
        assert aws.types()["g5g.xlarge"].nvme_gb == []
        assert core(refused(gpu="t4g")) == {"gpu.model"}

    def test_the_largest_g4dn_has_one_gpu(self) -> None:
        assert (aws.types()["g4dn.16xlarge"].gpus, aws.types()["g4dn.12xlarge"].gpus) == (1, 4)
        assert "one GPU" in why_not_aws("g4dn.16xlarge", "us-east-1", "t4", 4)

    def test_one_v100_takes_at_most_twelve_cpus(self) -> None:
        assert why_not_gcp("n1-standard-8", "us-west1-a", "v100", 1) == ""
        assert "at most 12 vCPUs" in why_not_gcp("n1-standard-16", "us-west1-a", "v100", 1)
        assert "1, 2, 4" in why_not_gcp("n1-standard-8", "us-west1-a", "t4", 3)

    def test_zones_that_lack_a_type_are_not_offered(self) -> None:
        assert "use1-az3" not in clouds.provider("aws").offered_in("g4dn.xlarge")["us-east-1"]

    @pytest.mark.parametrize(
        ("instance_type", "market", "code"),
        [
            ("g4dn.xlarge", "on-demand", "L-DB2E81BA"),
            ("p3dn.24xlarge", "on-demand", "L-417A185B"),
            ("gr6.4xlarge", "spot", "L-3819A6DF"),
            ("p4d.24xlarge", "spot", "L-7212CCBC"),
            ("p5.48xlarge", "spot", "L-C4BD4855"),
            ("p5en.48xlarge", "spot", "L-C4BD4855"),
            ("p5en.48xlarge", "on-demand", "L-417A185B"),
            ("p6-b200.48xlarge", "on-demand", "L-417A185B"),
            ("p6-b200.48xlarge", "spot", None),
        ],
    )
    def test_quotas_have_their_codes(self, instance_type: str, market: str, code: str | None) -> None:
        assert clouds.provider("aws").quota(instance_type, None, market) == code

    def test_quotas_of_gcp_are_metrics(self) -> None:
        assert clouds.provider("gcp").quota("n1-standard-8", "t4", "spot") == "PREEMPTIBLE_NVIDIA_T4_GPUS"
        assert clouds.provider("gcp").quota("a3-highgpu-8g", "h100", "on-demand") is None, "not in Google's enum, so not guessed"


class TestSystems:
    def test_el_10_begins_after_volta(self) -> None:
        assert core(refused(gpu="v100", os="rocky 10")) == {"gpu.model", "os"}
        assert values(gpu="v100", os="rocky 9")["cuda"] == "12.9"

    def test_python_decides_as_well(self) -> None:
        assert core(refused(gpu="t4", os=JAMMY, pytorch="2.15.0")) == {"os", "stack.frameworks.pytorch"}
        assert values(gpu="t4", os=JAMMY, pytorch="auto")["pytorch"] == "2.14.1"


class TestTime:
    def test_a_branch_is_not_chosen_after_its_end(self) -> None:
        later = resolve(StackRequest(gpu="t4", os=NOBLE), dt.date(2027, 4, 1))
        assert later.values["driver"] == "580"
        assert next(c for c in later.choices if c.variable == "driver").passed_over[-1][1] == "driver 590 is no longer supported"

    def test_a_pinned_branch_past_its_end_is_taken_with_the_advice_against_it(self) -> None:
        resolution = resolve(StackRequest(gpu="t4", os=JAMMY, driver="535"), TODAY)
        assert (resolution.values["driver"], resolution.values["cuda"]) == ("535", "12.2")
        assert resolution.advice == (Advice("driver", "driver 535: its support ended on 2026-06-30"),)
        assert resolution.warnings == ("driver 535: its support ended on 2026-06-30",)


class TestAdvice:
    @pytest.mark.parametrize(
        ("request_", "parts"),
        [
            ({"gpu": "t4"}, []),
            ({"gpu": "t4", "os": JAMMY, "driver": "535"}, ["driver"]),
            ({"gpu": "t4", "driver": "580", "cuda": "13.2"}, ["cuda"]),
            ({"gpu": "t4", "nvprof": True}, ["nvprof"]),
            ({"gpu": "v100", "driver": "535", "pytorch": "2.14.1+cu126"}, ["driver", "cuda", "pytorch"]),
        ],
    )
    def test_the_values_of_a_stack_give_its_advice_again(self, request_: dict[str, object], parts: list[str]) -> None:
        resolution = resolve(StackRequest(**{"os": NOBLE, **request_}), TODAY)  # type: ignore[arg-type]
        assert [advice.part for advice in resolution.advice] == parts
        assert advice(resolution.values, TODAY) == resolution.advice

    def test_it_is_as_of_the_day(self) -> None:
        assert advice({"driver": "580"}, TODAY) == ()
        assert [(a.part, a.text) for a in advice({"driver": "580"}, dt.date(2028, 7, 1))] == [
            ("driver", "driver 580: its support ended on 2028-06-30")
        ]

    def test_a_value_that_the_catalog_does_not_have_gets_no_advice(self) -> None:
        assert advice({"driver": "535.1", "cuda": "99.0", "pytorch": "none"}, TODAY) == ()


class TestWords:
    def test_every_choice_explains_itself(self) -> None:
        resolution = resolve(StackRequest(gpu="v100", os=JAMMY, pytorch="auto", tensorflow="auto", ncu=True), TODAY)
        assert [c.variable for c in resolution.choices][:6] == ["gpu", "os", "pytorch", "tensorflow", "jax", "driver"]
        for choice in resolution.choices:
            assert choice.because or choice.value == "none" or choice.variable in {"flavour", "clock_mode"}, choice
            assert all(why and not re.fullmatch(r"[a-z-]+", why) for _, why in choice.passed_over), "a rule's name is no reason"

    @pytest.mark.parametrize(
        ("changed", "says"),
        [
            ({"cuda": "12.7"}, "12.6"),
            ({"driver": "581"}, "580"),
            ({"pytorch": "2.16"}, "2.15.0"),
            ({"gpu": "t5"}, "t4"),
        ],
    )
    def test_a_version_that_is_not_in_the_catalog_names_the_nearest(self, changed: dict[str, str], says: str) -> None:
        error = refused(**{"gpu": "t4", **changed})
        assert "is not in the catalog" in error.message
        assert says in error.hint

    @pytest.mark.parametrize("driver", ["580.95.05", "580"])
    def test_a_full_driver_version_means_its_branch(self, driver: str) -> None:
        assert values(gpu="t4", driver=driver)["driver"] == "580"

    def test_a_version_may_leave_its_last_parts_open_and_no_more(self) -> None:
        assert "is not in the catalog" in refused(gpu="t4", pytorch="2.1").message, "2.1 is not 2.10"
        assert values(gpu="t4", cudnn="9.10")["cudnn"] == "9.10.2.21"


@pytest.mark.parametrize("system", [NOBLE, JAMMY, "debian 13", "rocky 10"])
def test_cudnn_that_is_left_out_is_not_chosen(system: str) -> None:
    assert values(gpu="t4", os=system, cudnn=None)["cudnn"] == "none"


def test_jax_on_volta_has_its_cudnn_held() -> None:
    assert values(gpu="v100", jax="auto")["jax"] == "0.12.0.1"
    wheels = read.closures("jax-0.12.0.1-cudnn-9.10.2.21-cp312")
    assert wheels
    assert "nvidia-cudnn-cu12==9.10.2.21" in wheels
    assert values(gpu="t4", os=JAMMY, jax="auto")["jax"] == "0.6.2"
