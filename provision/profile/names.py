"""Every package name that a lock can hold, by family of systems: what docs/sources/packages.md cross-checks against public files.

A driver's branch, a toolkit's release and the major version of CUDA stand as `<branch>`, `<release>` and `<major>`: a name is checked as a
pattern, because one repository never shows all of them.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from provision.catalog import read
from provision.catalog.records.packages import Distribution
from provision.profile.packages import PROFILERS
from provision.profile.pins import PackagePin

Family = Literal["ubuntu", "debian", "el"]
_FAMILIES: Final[dict[str, tuple[Family, ...]]] = {"apt": ("ubuntu", "debian"), "dnf": ("el",), "dnf-modular": ("el",)}

_OF_THE_SYSTEM: Final = frozenset({"infiniband-diags"})  # the one package beside the fabric manager that is not NVIDIA's


class EmittedName(NamedTuple):
    """A package name, or its pattern; `origin` is whose repository has it."""

    family: Family
    name: str
    origin: Literal["nvidia", "distribution"]


def emitted() -> set[EmittedName]:
    """All of them: every system, role and source of packages of the catalogue."""
    found = {EmittedName(family, name, "nvidia") for family, name in _nvidia()}
    return found | {EmittedName(family, name, "distribution") for family, name in _distribution()}


def pattern() -> re.Pattern[str]:
    """What matches every such name."""
    names = sorted({re.escape(each.name) for each in emitted()})
    return re.compile("|".join(re.sub(r"<[a-z]+>", "[0-9.-]+", name) for name in names))


def _nvidia() -> Iterator[tuple[Family, str]]:
    for record in read.driver().packages:
        families = (_family(record.only),) if record.only else _FAMILIES[record.system]
        pins = record.pin if record.system == "apt" else ()  # for dnf a pin is a pattern, not a package
        yield from _each(families, (*pins, *record.open.compute, *record.proprietary.compute, *record.video))
    fabric = read.driver().fabric
    for own in fabric.packages:
        yield from _each(_FAMILIES[own.system], [own.manager])
    for subnet in fabric.subnet:
        yield from _each(_FAMILIES[subnet.system], [name for name in subnet.packages if name not in _OF_THE_SYSTEM])
    for toolkit in read.toolkits().toolkits:
        release = toolkit.version.replace(".", "-")
        packages = [toolkit.package, *(f"{name}-{release}" for name in PROFILERS.values())]
        yield from _each(("ubuntu", "debian", "el"), [name.replace(release, "<release>") for name in packages])
    for names in read.cudnn().packages:
        yield from _each(_FAMILIES[names.system], names.names)
    yield from _each(("ubuntu", "debian", "el"), read.containers().toolkit.packages)
    for extra in read.extras().values():
        for system, packages in extra.beside_driver.items():
            yield from _each((_family(system),), packages)
        for manager, packages in extra.packages.items() if extra.how == "packages" else ():
            plain = [re.sub(rf"-{re.escape(extra.version)}-\d+$", "", PackagePin.parse(name).name) for name in packages]
            sonames = {release.soname for release in extra.releases if manager in release.package} or {""}
            yield from _each(_FAMILIES[manager], {name.replace("<soname>", soname) for name in plain for soname in sonames})


def _distribution() -> Iterator[tuple[Family, str]]:
    for system in read.systems().systems:
        flavours = set(system.kernel.values()) | {"generic"} if system.packages == "apt" else {""}
        headers = [name.replace("<flavour>", flavour) for name in system.headers for flavour in flavours]
        if system.name == "debian":  # a kernel of Debian's is never called generic
            headers = [name for name in headers if not name.endswith("generic")]
        yield from _each((_family(system.name),), (*headers, *system.python.packages))
    fabric = read.driver().fabric
    for subnet in fabric.subnet:
        yield from _each(_FAMILIES[subnet.system], [name for name in subnet.packages if name in _OF_THE_SYSTEM])
    for extra in fabric.kernel:
        kernels = {flavour for each in read.systems().systems if each.name == extra.system for flavour in each.kernel.values()}
        yield from _each((_family(extra.system),), [extra.package.replace("<flavour>", flavour) for flavour in kernels])
    for base in read.repositories().base:
        tools = [name for names in base.tools.values() for name in names]
        names = (*base.always, *tools, *base.gcc, *base.ffmpeg, *base.xfs, *base.stripe, *base.driver, *base.python_headers, *base.build)
        yield from _each(_FAMILIES[base.packages], [name.replace("<python>", "python3.12") for name in names])
    yield from _signed()
    for engine in read.containers().engines:
        yield from _each({_family(system) for system in engine.systems}, engine.packages)
    yield from _parts_of_the_driver()
    for own in read.repositories().distributions:
        yield from _each((_family(own.system),), _own(own))


def _parts_of_the_driver() -> Iterator[tuple[Family, str]]:
    for part in (extra for extra in read.extras().values() if extra.how == "driver"):
        for manager, packages in part.packages.items():
            yield from _each(_FAMILIES[manager], packages)
        for named, packages in part.beside_driver.items():
            yield from _each((_family(named),), packages)


def _signed() -> Iterator[tuple[Family, str]]:
    """Of signed modules, each for its own kernel."""
    for record in read.driver().signed:
        systems = [system for system in read.systems().systems if system.key in record.systems]
        kernels = {flavour for system in systems for flavour in system.kernel.values()} | {"generic"}
        modules = [name.replace("<flavour>", kernel) for names in record.modules.values() for name in names for kernel in kernels]
        yield from _each((_family(record.systems[0]),), (*record.user_space, *modules, *record.video, record.fabric, *record.release))


def _own(own: Distribution) -> Iterable[str]:
    return (*own.open, *own.proprietary, *own.video, *own.toolkit, *own.cupti, *own.nsys, *own.ncu, *own.nvprof)


def _family(system: str) -> Family:
    """The family of a system such as `debian 12` or `rocky`."""
    name = system.partition(" ")[0]
    return "ubuntu" if name == "ubuntu" else "debian" if name == "debian" else "el"


def _each(families: Iterable[Family], names: Iterable[str]) -> Iterator[tuple[Family, str]]:
    every = tuple(names)
    for family in families:
        yield from ((family, name) for name in every)
