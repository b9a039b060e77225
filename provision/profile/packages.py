"""The packages of a resolved stack by role, and the repositories that have them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from provision import clouds
from provision.catalog import package_versions, read
from provision.catalog.records.base import version
from provision.catalog.records.libraries import LibraryRelease
from provision.catalog.records.packages import Distribution
from provision.catalog.records.signed import SignedModules
from provision.catalog.records.stack import DriverPackages, System, Toolkit
from provision.errors import StackConflictError
from provision.profile.containers import container_packages
from provision.profile.exact import Exact
from provision.profile.fabric import has_nvlink5, has_nvswitch
from provision.profile.locked import LockedCudnn, LockedDriver, LockedRepository, LockedToolkit
from provision.profile.model import Mirror, Profile
from provision.profile.pins import PackagePin
from provision.profile.signed import no_secure_boot, signed_driver, signed_packages, wants_signed
from provision.structs import MutableStruct, asdict, field, replace

# Their packages in NVIDIA's repositories, before the toolkit's release.
PROFILERS: Final = {"nsys": "cuda-nsight-systems", "ncu": "cuda-nsight-compute", "nvprof": "cuda-nvprof"}


def system_of(key: str) -> System:
    """The catalog's record of a system such as `debian 12`."""
    return next(s for s in read.systems().systems if s.key == key)


class Names(MutableStruct):
    """The package names of a stack on one system, from one source.

    Attributes:
        distribution: the distribution's own packages, where the profile uses them; otherwise None.
        notes: phrases about what the catalog does not have.
    """

    profile: Profile
    system: System
    distribution: Distribution | None
    notes: list[str] = field(default_factory=list)

    @property
    def manager(self) -> Literal["apt", "dnf"]:
        """`apt` or `dnf`."""
        return "apt" if self.system.packages == "apt" else "dnf"

    @property
    def signed(self) -> SignedModules | None:
        """Whose signed kernel modules are installed; None where they are built on the host."""
        return read.driver().signed_for(self.system.key) if wants_signed(self.profile) else None

    def held_with_modules(self) -> list[str]:
        """Patterns of packages that no unattended upgrade may replace without the signed modules."""
        return self.signed.kernel if self.signed else []

    def driver(self, branch: str, flavour: str, *, video: bool) -> LockedDriver:
        """The driver's packages, its pins, and the headers that its modules are built with."""
        flavours = sorted({self.system.kernel.get(place.cloud, "generic") for place in self.profile.places}) or ["generic"]
        if self.profile.image_has is not None:
            empty: dict[str, Any] = dict.fromkeys(("packages", "pin", "headers"), ())
            return LockedDriver(branch=branch, flavour=flavour, stream=None, module="nvidia", build="image", **empty)  # type: ignore[arg-type]
        if self.signed:
            usable = [place for place in self.profile.places if not no_secure_boot(self.profile, place)]
            flavours = sorted({self.system.kernel.get(place.cloud, "generic") for place in usable}) or ["generic"]
            return signed_driver(self.signed, branch, flavour, flavours, video=video)  # type: ignore[arg-type]  # as below
        headers = tuple(dict.fromkeys(name.replace("<flavour>", kernel) for name in self.system.headers for kernel in flavours))
        if self.distribution:
            own = self.distribution
            names = [*(own.open if flavour == "open" else own.proprietary), *(own.video if video else ())]
            return LockedDriver(
                branch=branch,
                flavour=flavour,  # type: ignore[arg-type]  # the domain of the variable is these two words
                packages=tuple(name.replace("<branch>", branch) for name in names),
                stream=None,
                pin=(),
                headers=headers,
                module=own.module,
            )
        record = _packages(self.system, branch)
        modules = record.open if flavour == "open" else record.proprietary

        def filled(names: Sequence[str]) -> tuple[str, ...]:
            return tuple(name.replace("<branch>", branch) for name in names)

        return LockedDriver(
            branch=branch,
            flavour=flavour,  # type: ignore[arg-type]  # as above
            packages=filled([*modules.compute, *(record.video if video else ())]),
            stream=filled([modules.stream])[0] if modules.stream else None,
            pin=filled(record.pin),
            headers=headers,
            module="nvidia",
        )

    def cudnn(self, release: str, toolkit: Toolkit) -> LockedCudnn:
        """CuDNN for the whole system."""
        if self.profile.stack.cudnn == "none":
            return LockedCudnn(version="none", packages=())
        if self.distribution:
            self.notes.append(f"a cuDNN among the packages of {self.system.key} itself: there is only one that downloads it from NVIDIA")
            return LockedCudnn(version=release, packages=())
        fitting = [p for p in read.cudnn().packages if p.system == self.manager and version(release) >= version(p.since)]
        if not fitting:
            self.notes.append(f"what {self.system.key} calls the packages of cuDNN {release}")
            return LockedCudnn(version=release, packages=())
        names = max(fitting, key=lambda p: version(p.since)).names
        pins = (PackagePin(name.replace("<major>", str(toolkit.major)), f"{release}*") for name in names)
        return LockedCudnn(version=release, packages=tuple(pin.text(self.manager) for pin in pins))

    def profiler(self, tool: str, toolkit: Toolkit) -> str:
        """The package of `nsys`, `ncu` or `nvprof`."""
        if self.distribution:
            return str(getattr(self.distribution, tool)[0])
        return f"{PROFILERS[tool]}-{toolkit.version.replace('.', '-')}"

    def toolkit(self, toolkit: Toolkit) -> tuple[str, str]:
        """The toolkit's package, and the folder that /usr/local/cuda stands for."""
        if self.distribution:
            return self.distribution.toolkit[0], self.distribution.cuda_home
        return toolkit.package, f"/usr/local/cuda-{toolkit.version}"

    def fabric_manager(self, branch: str) -> list[str]:
        """The fabric manager, first, and what NVLink 5 needs beside it; nothing where the machines have no NVSwitch.

        Raises:
            StackConflictError: the distribution has no fabric manager of its own.
        """
        if not has_nvswitch(self.profile) or self.profile.image_has is not None:
            return []
        if self.signed is None and self.distribution:
            msg = f"{self.system.key} itself packages no fabric manager, and CUDA does not start on a machine with NVSwitches without it"
            raise StackConflictError(msg, hint="set sources.packages to nvidia")
        record = read.driver().fabric
        fitting = [p for p in record.packages if p.system == self.manager and version(branch) <= version(p.upto)]
        manager = min(fitting, key=lambda p: version(p.upto)).manager.replace("<branch>", branch)
        manager = self.signed.fabric.replace("<branch>", branch) if self.signed else manager
        manager = PackagePin(manager, f"{branch}.*").text(self.manager)
        if not has_nvlink5(self.profile):
            return [manager]
        subnet = next(s for s in record.subnet if s.system == self.manager).packages
        flavours = sorted({self.system.kernel[place.cloud] for place in self.profile.places if place.cloud in self.system.kernel})
        extra = [k.package.replace("<flavour>", f) for k in record.kernel if k.system == self.system.name for f in flavours]
        return [manager, *subnet, *extra]

    def compilers(self, gcc: int) -> tuple[str, str]:
        """The C and C++ compilers of a major version of gcc."""
        if self.manager == "apt":
            return f"/usr/bin/gcc-{gcc}", f"/usr/bin/g++-{gcc}"
        folder = "/usr/bin" if gcc == self.system.gcc[0] else f"/opt/rh/gcc-toolset-{gcc}/root/usr/bin"
        return f"{folder}/gcc", f"{folder}/g++"

    def _opencv(self, compiler: Sequence[str]) -> list[str]:
        """The packages for OpenCV's environment, and for its build where it is built from source."""
        python = self.system.python.packages
        if self.profile.stack.opencv != "cuda":
            return [*python] if self.profile.stack.opencv == "wheel" else []
        base = next(b for b in read.repositories().base if b.packages == self.manager)
        return [*python, *(name.replace("<python>", python[0]) for name in base.build), *compiler]

    def extras(self, cuda_major: int, releases: Mapping[str, LibraryRelease], exact: Exact) -> list[str]:
        """The packages of the optional components that are installed as packages.

        All those of a release have its one version, and those beside the driver have the driver's.
        """
        names, beside = [], []
        for extra in (read.extras()[name] for name in self.profile.stack.extras):
            release, packages = releases.get(extra.name), extra.packages.get(self.manager, [])
            beside += extra.beside_driver.get(self.system.name, [])
            if release is None:
                names += [name.replace("<major>", str(cuda_major)) for name in packages]
            else:
                pins = (PackagePin(name.replace("<soname>", release.soname), release.package[self.manager]) for name in packages)
                names += [pin.text(self.manager) for pin in pins]
        return names + exact.pin(beside)

    def by_role(
        self,
        driver: LockedDriver,
        cuda: LockedToolkit,
        cudnn: LockedCudnn,
        profilers: Sequence[str],
        releases: Mapping[str, LibraryRelease],
    ) -> dict[str, tuple[str, ...]]:
        """Role → its packages; a role without packages is omitted.

        What comes from the repositories that are added is pinned to a version, where a refresh has read their indices. What comes from the
        image's own repositories is not: a distribution keeps one version of a package, the one with the last security update.

        Raises:
            StackConflictError: a package is not in the repositories in the version that the profile needs.
        """
        gcc, cuda_major = cuda.gcc, version(cuda.version)[0]
        base = next(b for b in read.repositories().base if b.packages == self.manager)
        stack, data = self.profile.stack, self.profile.disks.data
        gcc_packages = [name.replace("<major>", str(gcc)) for name in base.gcc]
        compiler = gcc_packages if gcc != self.system.gcc[0] else []
        tools = [name for tool in stack.tools for name in base.tools[tool]]
        python = list(self.system.python.packages)
        exact = Exact.of(self.manager, self.repositories())
        if not exact.versions:
            self.notes.append(
                "the exact versions of the driver's and the toolkit's packages; `gpuprov catalog refresh --only packages` finds them"
            )
        # For dnf a pin is a pattern, not a package.
        if self.signed:
            driver_packages = signed_packages(self.signed, driver, self.manager)
        else:
            driver_packages = [*(driver.pin if self.manager == "apt" else ()), *exact.pin_driver(driver.packages, driver.branch)]
        builders = [name for name in base.driver if name != "dkms" or driver.build == "dkms"]
        engine, container_toolkit = container_packages(self.profile, self.system.key, self.manager)
        manager, *beside = self.fabric_manager(driver.branch) or [""]
        roles = {
            "base": [*base.always, *tools, *compiler],
            "storage": [*(base.xfs if data and data.filesystem == "xfs" else ()), *(base.stripe if self._stripes() else ())],
            "nvidia_driver": [*builders, *driver.headers, *driver_packages] if driver.build != "image" else [],
            "fabric_manager": [*([manager] if self.signed else exact.pin([manager])), *beside] if manager else [],
            "cuda_toolkit": exact.pin([cuda.package]),
            "cupti": exact.pin(self.distribution.cupti) if self.distribution else [],
            "cudnn": exact.pin(cudnn.packages),
            "nsight": exact.pin(profilers),
            "pytorch": [*python, *(name.replace("<python>", python[0]) for name in base.python_headers)]
            if stack.frameworks.pytorch and not (stack.python and stack.python.prefix)
            else [],
            "tensorflow": python if stack.frameworks.tensorflow else [],
            "jax": python if stack.frameworks.jax else [],
            "extras": self.extras(cuda_major, releases, exact),
            "containers": [*engine, *exact.pin(container_toolkit)],
            "opencv": self._opencv(gcc_packages if self.manager == "apt" else compiler),
            "ffmpeg": base.ffmpeg if stack.ffmpeg else [],
        }
        return {role: tuple(dict.fromkeys(names)) for role, names in roles.items() if names}

    def _stripes(self) -> bool:
        """Whether one of the places may have several disks inside the machine; for a type that is not in the catalog this is assumed."""
        data = self.profile.disks.data
        if data is None or data.source != "instance-store":
            return False
        return any(clouds.provider(place.cloud).local_disks(place.instance_type) not in {0, 1} for place in self.profile.places)

    def repositories(self) -> tuple[LockedRepository, ...]:
        """The repositories that are added to those of the system's image.

        Raises:
            StackConflictError: nothing says which key NVIDIA's is trusted by.
        """
        if self.distribution:
            return tuple(LockedRepository.model_validate(asdict(r)) for r in package_versions.of_distribution(self.distribution))
        mirror: Mirror | None = getattr(self.profile.sources, self.manager)
        repository = package_versions.of_nvidia(self.system)
        if mirror:
            repository = replace(repository, name="mirror", url=mirror.url, key=mirror.key, fingerprint=mirror.fingerprint)
        elif repository.fingerprint is None:
            msg = f"nothing is installed from NVIDIA's repository for {self.system.key}: the fingerprint of its key is not in the catalog"
            hint = f"name a mirror with its key and fingerprint in sources.{self.manager}, or choose another system"
            raise StackConflictError(msg, hint=hint, of="os")
        return (LockedRepository.model_validate(asdict(repository)),)


def _packages(system: System, branch: str) -> DriverPackages:
    """The record of NVIDIA's packages for this branch on a system."""
    fitting = [
        p
        for p in read.driver().packages
        if p.system == system.packages and p.only in {None, system.name} and version(branch) <= version(p.upto)
    ]
    return min(fitting, key=lambda p: version(p.upto))
