"""The lock: the exact, resolved form of a profile. It determines what is launched, set up and checked.

`build` is pure: the same profile, catalog and day give the same lock. Facts that the catalog does not have are listed in `unresolved`;
nothing is guessed.
"""

import datetime as dt
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from provision import clouds
from provision.catalog import overlay, read
from provision.catalog.conflict import INSTEAD, NONE, Remedy
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.records.libraries import LibraryRelease
from provision.catalog.records.stack import ReleaseRecord, System, Toolkit
from provision.catalog.resolve import Resolution, StackRequest, resolve
from provision.catalog.rules import ClockRequest, gcc_for, wheel_cudnn
from provision.catalog.wheels import WheelSet, extra_wheels, opencv_decoder, opencv_set, opencv_tools, parse, set_for
from provision.clouds.offline import PlaceBase
from provision.clouds.terms import DriverAdvice
from provision.errors import StackConflictError
from provision.profile import known, libraries, load, mig
from provision.profile.containers import locked_containers
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
from provision.profile.own import OwnPackages, gap, locked_python, locked_ray, refuse_extras_of_a_prefix
from provision.profile.packages import Names, system_of
from provision.profile.signed import no_secure_boot, wants_signed
from provision.profile.vision import DECODE, DNN, opencv_parts
from provision.structs import replace

_HOLD: Final = ("nvidia-*", "libnvidia-*", "cuda-*", "libcudnn*", "linux-modules-nvidia-*")  # docs/sources/stack.md, "Packages"


def stack_request(profile: Profile) -> StackRequest:
    """The request for the stack of a profile."""
    clocks = profile.gpu.application_clocks
    has = profile.image_has
    pair = ClockRequest("pair", clocks.memory_mhz, clocks.graphics_mhz) if isinstance(clocks, ApplicationClocks) else ClockRequest(clocks)
    return StackRequest(
        gpu=profile.gpu.model,
        os=f"{profile.os.name} {profile.os.version}",
        driver=has.driver if has else profile.stack.driver,
        cuda=profile.stack.cuda,
        cudnn=None if profile.stack.cudnn == "none" else profile.stack.cudnn,
        pytorch=profile.stack.frameworks.pytorch,
        tensorflow=profile.stack.frameworks.tensorflow,
        jax=profile.stack.frameworks.jax,
        ncu="ncu" in profile.stack.profilers,
        nvprof="nvprof" in profile.stack.profilers,
        opencv=profile.stack.opencv == "cuda",
        signed=wants_signed(profile),
        extras=profile.stack.extras,
        counters=profile.gpu.counters,
        clocks=pair,
        packages=profile.sources.packages,
        flavour=(has.driver_flavour if has else None) or profile.stack.driver_flavour,
        advised=None if has else advised_flavour(profile),
        defaults=frozenset(key for key in _DEFAULTED if not _sets(profile, key)),
    )


# The keys behind demands that a profile may leave out.
_DEFAULTED: Final = (
    "stack.frameworks.pytorch",
    "stack.frameworks.tensorflow",
    "stack.frameworks.jax",
    "stack.profilers",
    "gpu.counters",
    "gpu.application_clocks",
    "sources.packages",
)


def _sets(model: BaseModel, key: str) -> bool:
    """Whether a profile says something of a key, whatever it says."""
    first, _, rest = key.partition(".")
    return first in model.model_fields_set and (not rest or _sets(getattr(model, first), rest))


def _driver_advice(profile: Profile) -> list[DriverAdvice]:
    advices = (clouds.provider(place.cloud).driver_advice(place.instance_type) for place in profile.places)
    return [advice for advice in advices if advice is not None]


def advised_flavour(profile: Profile) -> tuple[str, str] | None:
    """The kernel modules that the first of the places with an advice is better off with, and why; None where no place has one."""
    return next(((advice.flavour, advice.why) for advice in _driver_advice(profile)), None)


def runs_without_gsp(profile: Profile) -> bool:
    """Whether one of the places is better off without the GSP's firmware."""
    return any(not advice.gsp for advice in _driver_advice(profile))


def build(profile: Profile, today: dt.date, *, system: str | None = None, own: OwnPackages | None = None) -> Lock:
    """Resolve a profile into its lock.

    Args:
        profile: the profile.
        today: the day whose supported driver branches count.
        system: used instead of the profile's, such as that of a rehearsal host which stands in for it.
        own: what the file of `stack.python` adds; without it nothing is resolved, and the lock says so.

    Raises:
        StackConflictError: the demands of the profile conflict, or none of its places can have it.
    """
    request = stack_request(profile)
    request = replace(request, os=system or request.os)
    resolution = resolve(request, today, explain=False, accepts=lambda remedies: holds(profile, remedies, today, system))
    return _Writer(profile, resolution, own).lock()


def applied(profile: Profile, remedies: Iterable[Remedy]) -> dict[str, Any]:
    """The data of a profile with changes that the resolver proposes."""
    data = profile.dump()
    for remedy in remedies:
        *parents, last = remedy.key.split(".")
        node = data
        for part in parents:
            node = node[part]
        if remedy.removes:
            node[last] = [name for name in node[last] if name != remedy.variable] if isinstance(node[last], list) else None
        elif remedy.key == "os":
            node[last] |= dict(zip(("name", "version"), remedy.to.split(" "), strict=True))
        else:
            node[last] = INSTEAD.get(remedy.variable, remedy.to)
    return data


def holds(profile: Profile, remedies: Sequence[Remedy], today: dt.date, system: str | None = None) -> bool:
    """Whether a profile can be locked with changes. Another GPU needs other places, which only its author can choose.

    Where `system` takes the place of the profile's, no change of the profile gives the host another one.
    """
    if any(remedy.variable == "gpu" for remedy in remedies):
        return True
    if system is not None and any(remedy.key == "os" for remedy in remedies):
        return False
    try:
        changed = Profile.model_validate(applied(profile, remedies))
        build(changed, today, system=system)
    except (ValidationError, StackConflictError):
        return False
    return not known.errors(changed, {})


class _Writer:
    """Makes the parts of the lock from resolved values, and collects what is not known."""

    def __init__(self, profile: Profile, resolution: Resolution, team: OwnPackages | None) -> None:
        self.profile, self.team = profile, team
        self.prefix = profile.stack.python.prefix if profile.stack.python else None
        self.values = resolution.values
        self.warnings = resolution.warnings
        self.unresolved: list[str] = []
        self.gpu: GpuRecord = read.gpu(self.values["gpu"])
        self.system: System = system_of(self.values["os"])
        own = profile.sources.packages == "distribution"
        self.names = Names(profile, self.system, read.distribution(self.system.key) if own else None)
        self.toolkit: Toolkit = next(t for t in read.toolkits().toolkits if t.version == self.values["cuda"])

    def lock(self) -> Lock:
        places = tuple(self.place(place, location) for place in self.profile.places for location in place.locations)
        if places and all(place.not_available for place in places):
            reasons = "; ".join(dict.fromkeys(place.not_available for place in places))
            msg = f"none of them is available: {reasons}"
            hint = f"`gpuprov catalog instances --gpu {self.gpu.model}` lists all types with it"
            raise StackConflictError(msg, hint=hint, of="places")
        driver, profilers, cudnn = self.driver(), self.profilers(), self.names.cudnn(self.values["cudnn"], self.toolkit)
        package, home = self.names.toolkit(self.toolkit)
        gcc = gcc_for(self.system, self.toolkit) or 0  # a rule holds that there is one
        cuda = LockedToolkit(version=self.toolkit.version, package=package, home=home, gcc=gcc)
        clocks, frameworks, opencv = self.clocks(), self.frameworks(), self.opencv(home, gcc)
        releases = libraries.releases(self.profile, self.gpu, self.system, self.toolkit, driver.branch)
        extras = self.extras(frameworks, releases, libraries.Builder(self.names, self.gpu, self.toolkit, home, gcc))
        python = locked_python(self.profile, frameworks, extras, self.team)
        if missing := gap(self.profile.stack.python, python):
            self.note(missing)
        return Lock(
            schema_version=1,
            profile=LockedProfile(name=self.profile.name, sha256=load.digest(self.profile)),
            catalogue=", ".join([read.BASE_DATE, *(f"{part.name} {part.made_at.date()}" for part in overlay.read().parts)]),
            os=self.system.key,
            gpu=LockedGpu(model=self.gpu.model, compute_capability=self.gpu.compute_capability, mig=mig.slices(self.profile)),
            counters=self.profile.gpu.counters,
            places=places,
            driver=driver,
            cuda=cuda,
            cudnn=cudnn,
            profilers=profilers,
            clocks=clocks,
            frameworks=frameworks,
            opencv=opencv,
            extras=extras,
            containers=locked_containers(self.profile, self.system.key),
            python=python,
            ray=locked_ray(self.profile, python),
            repositories=self.names.repositories(),
            wheel_index=self.profile.sources.wheels.url if self.profile.sources.wheels else None,
            packages=self.names.by_role(driver, cuda, cudnn, [p.package for p in profilers.values()], releases),
            hold=(*_HOLD, *libraries.held(releases), *self.names.held_with_modules()),
            warnings=self.warnings,
            unresolved=tuple(dict.fromkeys([*self.unresolved, *self.names.notes])),
        )

    def place(self, place: PlaceBase, location: str) -> LockedPlace:
        """One location of a place. A gap in the catalog does not make it unavailable; the gap becomes a note."""
        system = (self.profile.os.name, self.profile.os.version)
        provider, region = clouds.provider(place.cloud), place.region_of(location)
        image, known_image = provider.image(system, place), provider.known_image(region, system, place)
        refusal = clouds.refusal(place, location, self.gpu.model, self.profile.gpu.count)
        if refusal is not None and refusal.is_ignorance:
            self.note(f"places: {refusal}")
            refusal = None
        gap = provider.image_gap(region, system, place)
        if gap:
            self.note(gap)
        return LockedPlace(
            cloud=place.cloud,
            region=location,
            instance_type=place.instance_type,
            market=place.market,
            image=image.lookup if image else "",
            image_id=known_image.id if known_image else None,
            image_name=known_image.name if known_image else "",
            image_owner=known_image.owner if known_image else "",
            image_created=known_image.created if known_image else "",
            kernel=self.system.kernel.get(place.cloud, "generic"),
            not_available=str(refusal) if refusal else no_secure_boot(self.profile, place),
        )

    def note(self, gap: str) -> None:
        self.unresolved.append(gap)

    def driver(self) -> LockedDriver:
        video = self.profile.stack.ffmpeg and self.gpu.nvenc is not False
        if video and self.gpu.nvenc is None:
            self.note(f"whether {self.gpu.name} has NVENC; the video libraries are installed all the same")
        old = mig.driver_problem(self.profile, self.values["driver"])
        if old:
            raise StackConflictError(old, hint="choose a newer branch in stack.driver, or remove gpu.mig", of="stack.driver")
        video = video or DECODE in opencv_parts(self.profile)
        driver = self.names.driver(self.values["driver"], self.values["flavour"], video=video)
        if driver.build == "image":  # its options are the image's own
            return driver
        return driver.model_copy(update={"gsp": "off" if driver.flavour == "proprietary" and runs_without_gsp(self.profile) else "default"})

    def profilers(self) -> dict[str, LockedProfiler]:
        releases = {"nsys": self.toolkit.nsys, "ncu": self.toolkit.ncu, "nvprof": self.toolkit.version}
        profilers: dict[str, LockedProfiler] = {}
        for tool in sorted(self.profile.stack.profilers):
            release = None if self.names.distribution else releases[tool]
            if release is None and not self.names.distribution:
                self.note(f"the version of {tool} that comes with CUDA {self.toolkit.version}")
            profilers[tool] = LockedProfiler(package=self.names.profiler(tool, self.toolkit), version=release)
        return profilers

    def clocks(self) -> LockedClocks:
        clocks = self.profile.gpu.application_clocks
        pair = (clocks.memory_mhz, clocks.graphics_mhz) if isinstance(clocks, ApplicationClocks) else (None, None)
        mode = self.values["clock_mode"]
        return LockedClocks(mode=mode, memory_mhz=pair[0], graphics_mhz=pair[1])  # type: ignore[arg-type]  # as for the flavour

    def frameworks(self) -> dict[str, LockedEnvironment]:
        environments = {}
        for name, releases in read.frameworks().items():
            if self.values[name] != NONE and not (name == "pytorch" and self.prefix):
                release: ReleaseRecord = next(r for r in releases if r.version == self.values[name])
                wheels = set_for(name, release, self.gpu, self.system.python.version)
                environment = self.environment(wheels, release.version)
                cudnn = wheel_cudnn(self.gpu, release) or environment.wheel("nvidia-cudnn-cu12")
                environments[name] = environment.model_copy(update={"cuda": release.cuda, "cudnn": cudnn})
        return environments

    def extras(
        self, frameworks: dict[str, LockedEnvironment], releases: Mapping[str, LibraryRelease], builder: libraries.Builder
    ) -> dict[str, LockedExtra]:
        extras = {}
        refuse_extras_of_a_prefix(self.profile)
        for extra in (read.extras()[name] for name in sorted(self.profile.stack.extras)):
            if extra.name in releases:
                extras[extra.name] = libraries.of_release(extra, releases[extra.name], frameworks["pytorch"], self.lines)
                continue
            if extra.how == "driver":
                part = LockedExtra(version=self.values["driver"], environment=None, package=None, unit=None, wheels=(), files=extra.files)
                extras[extra.name] = part
                continue
            if extra.how == "packages":
                extras[extra.name] = LockedExtra(version=extra.version, environment=None, package=None, unit=extra.unit, wheels=())
                continue
            where = next(name for name in extra.frameworks if name in frameworks)  # a rule holds that there is one
            into = frameworks[where]
            wheels: tuple[str, ...] = ()
            if extra.build:
                release = next(r for r in read.frameworks()[where] if r.version == into.version)
                made = builder.build(extra, extra.build, release, into, self.environment)
                wheels, name = extra_wheels(extra, release, into.python), extra.build.name
                extras[extra.name] = LockedExtra(
                    version=extra.build.version, environment=where, package=name, unit=None, wheels=wheels, build=made
                )
                continue
            if extra.how == "wheels":
                release = next(r for r in read.frameworks()[where] if r.version == into.version)
                wheels = extra_wheels(extra, release, into.python)
                records, name = parse("\n".join(wheels)), (extra.of_major(extra.requirement, release.cuda) or "").partition("==")[0]
            else:
                records, name = parse("\n".join(into.wheels)), extra.of_major(extra.wheel, into.cuda or "") or ""
            release_version = next((wheel.version for wheel in records if wheel.name == name), None)
            if release_version is None:
                self.note(f"which release of {extra.title} the wheels of {where} bring")
            extras[extra.name] = LockedExtra(version=release_version or "", environment=where, package=name, unit=None, wheels=wheels)
        self.check_agreement(extras)
        return extras

    @staticmethod
    def check_agreement(extras: dict[str, LockedExtra]) -> None:
        """Check that no two components bring different versions of a package: each set was resolved with PyTorch's only."""
        versions: dict[str, tuple[str, str]] = {}
        for name, extra in extras.items():
            for wheel in parse("\n".join(extra.wheels)):
                other, version = versions.setdefault(wheel.name, (name, wheel.version))
                if version != wheel.version:
                    msg = f"{other} brings {wheel.name} {version}, and {name} {wheel.version}"
                    hint = f"remove {other} or {name} from stack.extras, or refresh both wheel sets"
                    raise StackConflictError(msg, hint=hint, of="stack.extras")

    def opencv(self, cuda_home: str, gcc: int) -> LockedOpenCv:
        if self.profile.stack.opencv == "none":
            return LockedOpenCv(environment=None, build_flags=())
        record, python = read.systems().opencv, self.system.python.version
        wheel = record.wheel_for(python)
        environment = self.environment(opencv_set(python), wheel.version)
        if self.profile.stack.opencv == "wheel":
            return LockedOpenCv(environment=environment, build_flags=())
        build, where = record.build, f"{self.system.key} + CUDA {self.toolkit.version}"
        release = build.release_for(self.toolkit.version) or build.releases[-1]  # a rule holds that there is one
        if where not in release.built:
            built = f"on {' and '.join(release.built)}" if release.built else "nowhere yet"
            self.note(f"whether OpenCV {release.version} builds on {where}: it was built {built}")
        tools = self.environment(opencv_tools(python), release.version)
        cc, cxx = self.names.compilers(gcc)
        parts = opencv_parts(self.profile)
        words = {"cc": cc, "cxx": cxx, "cuda_home": cuda_home, "compute_capability": self.gpu.compute_capability}
        words |= {"dnn": "ON" if DNN in parts else "OFF", "dnn_module": "dnn," if DNN in parts else ""}
        flags = []
        for flag in (*build.flags, *(build.dnn_flags if DNN in parts else ())):
            for word, value in words.items():
                flag = flag.replace(f"<{word}>", value)  # noqa: PLW2901 - filled in, one word after the other
            flags.append(flag)
        source = f"{build.name}=={release.version} --hash=sha256:{release.sha256}"
        basis = [source, flags, gcc, self.toolkit.version, python, self.system.key, tools.wheels]
        basis += [self.values["cudnn"]] if DNN in parts else []
        # OpenCV itself is not taken from the index, so only the rest of the set remains, which is NumPy.
        rest = tuple(line for line in environment.wheels if not line.startswith(f"{wheel.name}=="))
        decoder = self.environment(opencv_decoder(python), record.decoder.version)
        requirements = (f"numpy=={wheel.numpy}", *decoder.requirements)
        runtime = {"version": release.version, "wheels": tuple(sorted([*rest, *decoder.wheels])), "requirements": requirements}
        return LockedOpenCv(
            environment=environment.model_copy(update=runtime),
            build_flags=tuple(flags),
            source=source,
            tools=tools,
            parts=parts,
            key=hashlib.sha256(json.dumps(basis).encode()).hexdigest(),
        )

    def lines(self, wheels: WheelSet) -> tuple[str, ...]:
        text = wheels.text()
        if text is None:
            self.note(f"the wheels of {wheels.name}: the index {wheels.index} was never reached; nothing is installed from it unseen")
        return tuple((text or "").splitlines())

    def environment(self, wheels: WheelSet, release: str) -> LockedEnvironment:
        return LockedEnvironment(
            version=release,
            index=wheels.index,
            cuda=None,
            cudnn=None,
            python=wheels.python,
            requirements=wheels.requirements,
            wheels=self.lines(wheels),
        )
