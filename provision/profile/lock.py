"""The lock: the exact resolved form of a profile. What is launched, set up and checked is what it says.

`build` is pure: the same profile, catalogue and day give the same lock. What the catalogue does not know stands in `unresolved`, in words,
and never as a guess.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from typing import Any, Final

from provision import clouds
from provision.catalog import overlay, read
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.stack import ReleaseRecord, System, Toolkit
from provision.catalog.resolve import AUTO, NONE, Resolution, StackRequest, resolve
from provision.catalog.rules import ClockRequest, gcc_for, wheel_cudnn
from provision.catalog.wheels import WheelSet, extra_wheels, opencv_set, opencv_tools, parse, set_for
from provision.clouds.offline import PlaceBase
from provision.errors import StackConflictError
from provision.profile import load
from provision.profile.locked import (
    Lock,
    LockedClocks,
    LockedDriver,
    LockedEnvironment,
    LockedExtra,
    LockedGpu,
    LockedOpenCv,
    LockedPlace,
    LockedProfile,
    LockedProfiler,
    LockedToolkit,
)
from provision.profile.model import ApplicationClocks, Profile
from provision.profile.packages import Names, system_of

_HOLD: Final = ("nvidia-*", "libnvidia-*", "cuda-*", "libcudnn*", "linux-modules-nvidia-*")  # docs/sources/stack.md, "Packages"


def asked_of(profile: Profile) -> StackRequest:
    """What a profile asks of its stack."""
    clocks = profile.gpu.application_clocks
    pair = ClockRequest("pair", clocks.memory_mhz, clocks.graphics_mhz) if isinstance(clocks, ApplicationClocks) else ClockRequest(clocks)
    return StackRequest(
        gpu=profile.gpu.model,
        os=f"{profile.os.name} {profile.os.version}",
        driver=profile.stack.driver,
        cuda=profile.stack.cuda,
        cudnn=AUTO if profile.stack.cudnn == "none" else profile.stack.cudnn,
        pytorch=profile.stack.frameworks.pytorch,
        tensorflow=profile.stack.frameworks.tensorflow,
        jax=profile.stack.frameworks.jax,
        ncu="ncu" in profile.stack.profilers,
        nvprof="nvprof" in profile.stack.profilers,
        opencv=profile.stack.opencv == "cuda",
        extras=profile.stack.extras,
        counters=profile.gpu.counters,
        clocks=pair,
        packages=profile.sources.packages,
    )


def build(profile: Profile, today: dt.date, *, system: str | None = None) -> Lock:
    """Resolve a profile into its lock.

    Args:
        profile: what is asked.
        today: the day whose supported driver branches count.
        system: another one than the profile's, such as that of a rehearsal host which stands in for it.

    Raises:
        StackConflictError: what is asked cannot hold together, or can be had in none of the places.
    """
    asked = asked_of(profile)
    resolution = resolve(dataclasses.replace(asked, os=system or asked.os), today, explain=False)
    return _Writer(profile, resolution).lock()


class _Writer:
    """From resolved values to the lock's parts; what is not known is noted on the way."""

    def __init__(self, profile: Profile, resolution: Resolution) -> None:
        self.profile = profile
        self.values = resolution.values
        self.warnings = resolution.warnings
        self.unresolved: list[str] = []
        self.gpu: GpuRecord = read.gpu(self.values["gpu"])
        self.system: System = system_of(self.values["os"])
        own = profile.sources.packages == "distribution"
        self.names = Names(profile, self.system, read.distribution(self.system.key) if own else None)
        self.toolkit: Toolkit = next(t for t in read.toolkits().toolkits if t.version == self.values["cuda"])

    def lock(self) -> Lock:
        located = tuple(self.places())
        if all(place.not_available for place in located):
            reasons = "; ".join(dict.fromkeys(place.not_available for place in located))
            msg = f"places: none of them can be had: {reasons}"
            raise StackConflictError(msg, hint=f"`gpuprov catalog instances --gpu {self.gpu.model}` shows what there is")
        driver, profilers, cudnn = self.driver(), self.profilers(), self.names.cudnn(self.values["cudnn"], self.toolkit)
        package, home = self.names.toolkit(self.toolkit)
        gcc = gcc_for(self.system, self.toolkit) or 0  # a rule holds that there is one
        made: dict[str, Any] = {
            "driver": driver,
            "cuda": LockedToolkit(version=self.toolkit.version, package=package, home=home, gcc=gcc),
            "cudnn": cudnn,
            "profilers": profilers,
            "clocks": self.clocks(),
            "frameworks": self.frameworks(),
            "opencv": self.opencv(home, gcc),
        }
        made["extras"] = self.extras(made["frameworks"])
        return Lock(
            schema_version=1,
            profile=LockedProfile(name=self.profile.name, sha256=load.digest(self.profile)),
            catalogue=catalogue_version(),
            os=self.system.key,
            gpu=LockedGpu(model=self.gpu.model, compute_capability=self.gpu.compute_capability),
            counters=self.profile.gpu.counters,
            places=located,
            repositories=self.names.repositories(),
            wheel_index=self.profile.sources.wheels.url if self.profile.sources.wheels else None,
            packages=self.names.by_role(driver, made["cuda"], cudnn, [p.package for p in profilers.values()]),
            hold=_HOLD,
            warnings=self.warnings,
            unresolved=tuple(dict.fromkeys([*self.unresolved, *self.names.notes])),
            **made,
        )

    def places(self) -> list[LockedPlace]:
        """Every location of every place, with its image and what is known against it."""
        system = (self.profile.os.name, self.profile.os.version)
        return [self.place(place, location, system) for place in self.profile.places for location in place.locations]

    def place(self, place: PlaceBase, location: str, system: tuple[str, str]) -> LockedPlace:
        """One location. That the catalog does not know something is no reason against it, and goes to what is unresolved."""
        provider, region = clouds.provider(place.cloud), place.region_of(location)
        image = provider.image(system)
        against = clouds.refusal(place, location, self.gpu.model, self.profile.gpu.count)
        if against is not None and against.is_ignorance:
            self.note(f"places: {against}")
            against = None
        gap = provider.image_gap(region, system)
        if gap:
            self.note(gap)
        return LockedPlace(
            cloud=place.cloud,
            region=location,
            instance_type=place.instance_type,
            market=place.market,
            image=image.lookup if image else "",
            image_id=provider.image_id(region, system),
            kernel=self.system.kernel.get(place.cloud, "generic"),
            not_available=str(against) if against else "",
        )

    def note(self, what: str) -> None:
        if what not in self.unresolved:
            self.unresolved.append(what)

    def driver(self) -> LockedDriver:
        video = self.profile.stack.ffmpeg and self.gpu.nvenc is not False
        if video and self.gpu.nvenc is None:
            self.note(f"whether {self.gpu.name} has NVENC; the video libraries are installed all the same")
        return self.names.driver(self.values["driver"], self.values["flavour"], video=video)

    def profilers(self) -> dict[str, LockedProfiler]:
        known = {"nsys": self.toolkit.nsys, "ncu": self.toolkit.ncu, "nvprof": f"{self.toolkit.version}"}
        made: dict[str, LockedProfiler] = {}
        for tool in sorted(self.profile.stack.profilers):
            release = None if self.names.distribution else known[tool]
            if release is None and not self.names.distribution:
                self.note(f"the version of {tool} that comes with CUDA {self.toolkit.version}")
            made[tool] = LockedProfiler(package=self.names.profiler(tool, self.toolkit), version=release)
        return made

    def clocks(self) -> LockedClocks:
        asked = self.profile.gpu.application_clocks
        pair = (asked.memory_mhz, asked.graphics_mhz) if isinstance(asked, ApplicationClocks) else (None, None)
        mode = self.values["clock_mode"]
        return LockedClocks(mode=mode, memory_mhz=pair[0], graphics_mhz=pair[1])  # type: ignore[arg-type]  # as for the flavour

    def frameworks(self) -> dict[str, LockedEnvironment]:
        made = {}
        for name, known in read.frameworks().items():
            if self.values[name] != NONE:
                release: ReleaseRecord = next(r for r in known if r.version == self.values[name])
                wheels = set_for(name, release, self.gpu, self.system.python.version)
                environment = self.environment(wheels, release.version)
                cudnn = wheel_cudnn(self.gpu, release) or environment.wheel("nvidia-cudnn-cu12")
                made[name] = environment.model_copy(update={"cuda": release.cuda, "cudnn": cudnn})
        return made

    def extras(self, frameworks: dict[str, LockedEnvironment]) -> dict[str, LockedExtra]:
        made = {}
        for extra in (read.extras()[name] for name in sorted(self.profile.stack.extras)):
            if extra.how == "packages":
                made[extra.name] = LockedExtra(version=extra.version, environment=None, package=None, unit=extra.unit, wheels=())
                continue
            where = next(name for name in extra.frameworks if name in frameworks)  # a rule holds that there is one
            into = frameworks[where]
            wheels: tuple[str, ...] = ()
            if extra.how == "wheels":
                release = next(r for r in read.frameworks()[where] if r.version == into.version)
                wheels = extra_wheels(extra, release, into.python)
                known, name = parse("\n".join(wheels)), (extra.of_major(extra.requirement, release.cuda) or "").partition("==")[0]
            else:
                known, name = parse("\n".join(into.wheels)), extra.of_major(extra.wheel, into.cuda or "") or ""
            found = next((wheel.version for wheel in known if wheel.name == name), None)
            if found is None:
                self.note(f"which release of {extra.title} the wheels of {where} bring")
            made[extra.name] = LockedExtra(version=found or "", environment=where, package=name, unit=None, wheels=wheels)
        self.agree(made)
        return made

    @staticmethod
    def agree(made: dict[str, LockedExtra]) -> None:
        """Refuse components whose sets, each resolved with PyTorch's and none with another's, want different versions of one package."""
        wanted: dict[str, tuple[str, str]] = {}
        for name, extra in made.items():
            for wheel in parse("\n".join(extra.wheels)):
                other, version = wanted.setdefault(wheel.name, (name, wheel.version))
                if version != wheel.version:
                    msg = f"stack.extras: {other} brings {wheel.name} {version}, and {name} {wheel.version}"
                    raise StackConflictError(msg, hint=f"leave one of {other} and {name} out, or refresh both wheel sets")

    def opencv(self, cuda_home: str, gcc: int) -> LockedOpenCv:
        if self.profile.stack.opencv == "none":
            return LockedOpenCv(environment=None, build_flags=())
        known, python = read.systems().opencv, self.system.python.version
        environment = self.environment(opencv_set(python), known.wheel.version)
        if self.profile.stack.opencv == "wheel":
            return LockedOpenCv(environment=environment, build_flags=())
        build, where = known.build, f"{self.system.key} + CUDA {self.toolkit.version}"
        if where not in build.built:
            self.note(f"whether OpenCV {build.version} builds on {where}: it was built on {' and '.join(build.built)}")
        tools = self.environment(opencv_tools(python), build.version)
        cc, cxx = self.names.compilers(gcc)
        held = {"cc": cc, "cxx": cxx, "cuda_home": cuda_home, "compute_capability": self.gpu.compute_capability}
        flags = []
        for flag in build.flags:
            for word, value in held.items():
                flag = flag.replace(f"<{word}>", value)  # noqa: PLW2901 - filled in, one word after the other
            flags.append(flag)
        source = f"{build.name}=={build.version} --hash=sha256:{build.sha256}"
        basis = [source, flags, gcc, self.toolkit.version, python, self.system.key, tools.wheels]
        # NumPy is what remains of the set: OpenCV itself is not taken from the index.
        rest = tuple(line for line in environment.wheels if not line.startswith(f"{known.wheel.name}=="))
        runtime = {"version": build.version, "wheels": rest, "requirements": (f"numpy=={known.wheel.numpy}",)}
        return LockedOpenCv(
            environment=environment.model_copy(update=runtime),
            build_flags=tuple(flags),
            source=source,
            tools=tools,
            key=hashlib.sha256(json.dumps(basis).encode()).hexdigest(),
        )

    def environment(self, wheels: WheelSet, release: str) -> LockedEnvironment:
        text = wheels.text()
        if text is None:
            self.note(f"the wheels of {wheels.name}: the index {wheels.index} was never reached; nothing is installed from it unseen")
        return LockedEnvironment(
            version=release,
            index=wheels.index,
            cuda=None,
            cudnn=None,
            python=wheels.python,
            requirements=wheels.requirements,
            wheels=tuple((text or "").splitlines()),
        )


def catalogue_version() -> str:
    """Which data a lock was made from: the shipped day, and the day of each refreshed part."""
    parts = [f"{part.name} {part.made_at.date()}" for part in overlay.read().parts]
    return ", ".join([read.BASE_DATE, *parts])
