"""A first profile for a GPU: machines and prices from the clouds' catalogs, a stack that resolves, and a reason beside each choice."""

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from email.utils import parseaddr
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from provision import clouds
from provision.catalog import read
from provision.catalog.records.base import version
from provision.catalog.records.gpus import GpuRecord
from provision.catalog.resolve import Advice, StackRequest, resolve
from provision.clouds.machines import OfferedMachine
from provision.clouds.terms import Extras
from provision.errors import StackConflictError, UsageError
from provision.profile import load
from provision.profile.commented import Entry, document
from provision.profile.lock import build, stack_request
from provision.profile.locked import Lock
from provision.profile.model import Owner, Profile
from provision.structs import Struct, replace

_LIMIT_USD: Final = 1.0  # where no price is known, so that nothing is launched at any price
_DEADLINE_H: Final = 12
_VOLUME_GB: Final = 500
_SYSTEM: Final = "ubuntu"  # what every cloud has images of, and whose packages are known best


class Purpose(Struct):
    """What somebody wants to do with a GPU.

    Attributes:
        verb: the beginning of the profile's purpose.
        pytorch, video: whether it needs PyTorch, or ffmpeg with the GPU's encoder.
        profilers, counters: in the order of preference; the first that works on the GPU is taken.
        root_gb: the size of the boot disk.
    """

    verb: str
    pytorch: bool = True
    video: bool = False
    profilers: tuple[tuple[str, ...], ...] = ((),)
    counters: tuple[str, ...] = ("admin-only",)
    root_gb: int = 200


PURPOSES: Final[Mapping[str, Purpose]] = {
    "train": Purpose("Train models", profilers=(("nsys",),)),
    "profile": Purpose(
        "Profile kernels and models",
        profilers=(("nsys", "ncu"), ("nsys", "nvprof"), ("nsys",)),
        counters=("group", "all-users"),
    ),
    "infer": Purpose("Run inference"),
    "video": Purpose("Decode and encode video", pytorch=False, video=True, root_gb=100),
}

_COUNTERS: Final = {
    "admin-only": "only root reads performance counters; group opens them to people of your choice",
    "group": "the members of a group read performance counters without sudo, and nobody else",
    "all-users": "ncu and nvprof without sudo; this re-opens the side channel of CVE-2018-6260 to local users of this machine",
}

_ENCODER: Final = {
    True: "has NVENC",
    False: "has no NVENC, so that ffmpeg encodes on the processor",
    None: "may have no NVENC: the catalog does not know",
}


class Wish(Struct):
    """What a new profile should be for.

    Attributes:
        gpu: a model of the catalog.
        machines: as `machines.choose` found them.
        purpose: a key of `PURPOSES`.
        limit_usd: the most that an hour may cost; None for what the machines cost.
    """

    name: str
    gpu: str
    machines: Sequence[OfferedMachine]
    purpose: str
    owner: Owner
    limit_usd: float | None = None


class NewProfile(Struct):
    """A profile that holds.

    Attributes:
        text: of its file.
        warnings: what its author should know, a sentence each.
    """

    text: str
    profile: Profile
    lock: Lock
    warnings: tuple[str, ...]


def write(wish: Wish, today: dt.date) -> NewProfile:
    """The profile and its lock; nothing is written to disk.

    Raises:
        StackConflictError: nothing works on this GPU.
        UsageError: every machine costs more than the limit.
    """
    money = _Money(wish)
    stack = _stack(wish, money, today)
    text = document(_heading(wish, today), _entries(wish, stack, money))
    profile = _profile(text, wish)
    return NewProfile(text, profile, build(profile, today), tuple(_warnings(wish, money)))


def _profile(text: str, wish: Wish) -> Profile:
    return load.parse(text.encode(), Path(f"{wish.name}.yml"))


def works(gpu: str, today: dt.date) -> bool:
    """Whether any stack works on a GPU."""
    try:
        resolve(StackRequest(gpu=gpu, os=" ".join(_systems([])[0])), today, explain=False)
    except StackConflictError:
        return False
    return True


def owner_of(text: str) -> Owner:
    """The owner of a profile, from `NAME <ADDRESS>` or an address alone.

    Raises:
        UsageError: it is neither.
    """
    name, address = parseaddr(text)
    try:
        return Owner(name=name or address.partition("@")[0], email=address)
    except ValidationError as error:
        msg = f"{text!a} is not an owner"
        raise UsageError(msg, hint="write who answers for the machine as 'NAME <ADDRESS>', or the address alone") from error


def _heading(wish: Wish, today: dt.date) -> str:
    return (
        f"{PURPOSES[wish.purpose].verb} on {_gpus(wish)}. "
        f"Written by `gpuprov profile new` on {today} from the catalog of {read.BASE_DATE}. "
        f"Change what you like: `gpuprov profile check FILE` checks it, and `gpuprov lock FILE` writes the lock again."
    )


def _gpus(wish: Wish) -> str:
    gpu, count = read.gpu(wish.gpu), _count(wish)
    return f"{count} x {gpu.name}" if count > 1 else f"one {gpu.name}"


def _count(wish: Wish) -> int:
    """What every machine has at least."""
    return min(int(machine.offer.gpus) for machine in wish.machines)


# --- the stack -------------------------------------------------------------------------------------------------------


class _Stack(Struct):
    """What works: the system, what of the purpose is possible, and the driver with the reason for it."""

    system: tuple[str, str]
    profilers: tuple[str, ...]
    counters: str
    driver: str = "auto"
    why: str = ""


def _stack(wish: Wish, money: "_Money", today: dt.date) -> _Stack:
    """What works on the newest of the systems where the least advice speaks against it.

    Raises:
        StackConflictError: no combination works on any.
    """
    found, refusals = [], []
    for system in _systems(machine.offer.cloud for machine in wish.machines):
        try:
            found.append(_on_system(wish, money, system, today))
        except StackConflictError as conflict:
            refusals.append(conflict)
        if found and not found[-1][1]:
            break
    if found:
        return min(found, key=lambda each: len(each[1]))[0]
    raise (*refusals, _no_system(wish))[0]


def _on_system(wish: Wish, money: "_Money", system: tuple[str, str], today: dt.date) -> tuple[_Stack, tuple[Advice, ...]]:
    """The first combination that resolves on a system, in the order of preference, and the advice that it goes against.

    Raises:
        StackConflictError: none does.
    """
    purpose, refusals = PURPOSES[wish.purpose], []
    for profilers, counters in itertools.product(purpose.profilers, purpose.counters):
        stack = _Stack(system, profilers, counters)
        try:
            resolution = resolve(stack_request(_profile(document("", _entries(wish, stack, money)), wish)), today)
        except StackConflictError as conflict:
            refusals.append(conflict)
            continue
        driver = next(choice for choice in resolution.choices if choice.variable == "driver")
        newer = f"; not a newer branch: {driver.because}" if driver.because else ""
        why = f"with the {resolution.values['flavour']} kernel modules{newer}"
        return replace(stack, driver=driver.value, why=why), resolution.advice
    raise refusals[0]


def _systems(names: Iterable[str]) -> list[tuple[str, str]]:
    """The systems that can be launched on all of these clouds, the newest first."""
    providers = [clouds.provider(name) for name in dict.fromkeys(names)]
    systems = [(record.name, record.version) for record in read.systems().systems if record.name == _SYSTEM]
    shared = [system for system in systems if all(system in provider.image_systems() for provider in providers)]
    return sorted(shared, key=lambda system: version(system[1]), reverse=True)


def _no_system(wish: Wish) -> StackConflictError:
    names = " and ".join(dict.fromkeys(clouds.provider(machine.offer.cloud).title for machine in wish.machines))
    return StackConflictError(f"the catalog has no image of {_SYSTEM} for {names}", hint="choose regions of one cloud")


def _clocks(gpu: GpuRecord) -> tuple[int, int] | None:
    return (gpu.clocks.memory_mhz, gpu.clocks.graphics_mhz) if gpu.clocks else None


# --- the price -------------------------------------------------------------------------------------------------------


class _Money:
    """What the machines cost, and the limit that follows."""

    def __init__(self, wish: Wish) -> None:
        self.known: dict[str, float] = {}
        self.unknown: dict[str, str] = {}
        self.shown: list[str] = []  # with ~ where it is from memory, as everywhere
        extras = _extras(wish)
        for machine in wish.machines:
            provider = clouds.provider(machine.offer.cloud)
            for region, alone in machine.prices.items():
                price = alone.plus(provider.extras_price(machine.offer.instance_type, region, extras)) if alone else None
                if price is not None and price.whole:
                    self.known[region] = price.usd_per_hour
                    recalled = any(clouds.sources()[source].grade == "memory" for source in price.sources)
                    self.shown.append(f"{region} {'~' if recalled else ''}{price.usd_per_hour:.3f}")
                else:
                    self.unknown[region] = provider.price_hint
        self.given = wish.limit_usd
        if self.given is not None and self.known and not self.unknown and min(self.known.values()) > self.given:
            region = min(self.known, key=self.known.__getitem__)
            msg = f"every machine costs more than {self.given:.2f} USD an hour; the cheapest is {self.known[region]:.3f} in {region}"
            raise UsageError(msg, hint="raise --max-price, or name other regions (`gpuprov catalog instances --gpu GPU --sort price`)")

    @property
    def limit(self) -> float:
        """The limit of the profile: the highest known price, rounded up to the next tenth of a dollar."""
        if self.given is not None:
            return self.given
        return math.ceil(round(max(self.known.values()) * 10, 6)) / 10 if self.known else _LIMIT_USD

    @property
    def why(self) -> str:
        """The reason for the limit."""
        gaps = f"not known for {', '.join(self.unknown)}, where nothing is launched until it is" if self.unknown else ""
        if not self.known:
            return f"{'the maximum that you pay' if self.given else 'set it to the maximum that you would pay'}: the price is {gaps}"
        return "; ".join(filter(None, (f"US dollars an hour by the catalog, with disks and address: {', '.join(self.shown)}", gaps)))


def _warnings(wish: Wish, money: _Money) -> Iterator[str]:
    for hint in dict.fromkeys(money.unknown.values()):
        regions = ", ".join(region for region, other in money.unknown.items() if other == hint)
        yield f"nothing is launched in {regions} while its price is not known: {hint}; `unknown_price: allow` under limits accepts that"
    if not money.known and money.given is None:
        yield f"limits.price_per_hour_usd is {money.limit:.2f} for want of a price; --max-price sets it"
    for machine in wish.machines:
        for region in machine.opt_in:
            yield f"{region} must be enabled in the account once"
    dearer = [region for region, usd in money.known.items() if usd > money.limit]
    if dearer:
        yield f"{', '.join(dearer)} costs more than the limit, and is passed over"
    gpu = read.gpu(wish.gpu)
    if PURPOSES[wish.purpose].video and gpu.nvenc is not True:
        has = ", ".join(record.name for record in read.gpus().gpus if record.nvenc)
        yield f"{gpu.name} {_ENCODER[gpu.nvenc]}; these have it: {has}"


# --- the file --------------------------------------------------------------------------------------------------------


def _entries(wish: Wish, stack: _Stack, money: _Money) -> list[Entry]:
    purpose, owner = PURPOSES[wish.purpose], wish.owner
    return [
        Entry("schema", 1),
        Entry("name", wish.name),
        Entry("purpose", f"{purpose.verb} on {_gpus(wish)}."),
        Entry("owner", (Entry("name", owner.name), Entry("email", owner.email)), "who answers for the machine; its tags carry the address"),
        Entry("places", tuple(_place(machine) for machine in wish.machines), "tried in this order; the first that has a machine wins"),
        Entry("os", (Entry("name", stack.system[0]), Entry("version", stack.system[1]))),
        Entry("disks", _disks(wish)),
        Entry("network", (Entry("ssh_from", ("caller",), "the address gpuprov is run from, and nobody else"),)),
        Entry(
            "limits",
            (
                Entry("price_per_hour_usd", money.limit, money.why),
                Entry("deadline_h", _DEADLINE_H, "then the machine ends itself, even if the laptop that launched it is closed"),
            ),
        ),
        Entry("stack", tuple(_software(wish, stack))),
        Entry("gpu", tuple(_gpu(wish, stack))),
        Entry("verify", (Entry("tier", "standard"), Entry("min_free_gb", 5))),
    ]


def _place(machine: OfferedMachine) -> tuple[Entry, ...]:
    offer, data = machine.offer, machine.place.model_dump(mode="json")
    size = [f"{offer.gpus:g} x {read.gpu(offer.gpu or '').name}", f"{offer.vcpus} vCPU", f"{offer.memory_gb:g} GB"]
    disks = [f"{offer.local_gb} GB of disks inside"] if offer.local_gb else []
    whys = {
        "instance_type": ", ".join([*size, *disks]) + (f"; {offer.note}" if offer.note else ""),
        "market": "spot would be interrupted in the middle of the work",
        machine.place.locations_key: f"{', '.join(machine.opt_in)}: must be enabled in the account once" if machine.opt_in else "",
    }
    order = ["cloud", "instance_type", *(key for key in data if key not in {"cloud", "instance_type", "market"}), "market"]
    return tuple(Entry(key, data[key], whys.get(key, "")) for key in order)


def _inside(wish: Wish) -> bool:
    """Whether every machine has a disk inside."""
    return all(clouds.provider(m.offer.cloud).local_disks(m.offer.instance_type) != 0 for m in wish.machines)


def _extras(wish: Wish) -> Extras:
    """What is billed with each machine."""
    root_gb, inside = PURPOSES[wish.purpose].root_gb, _inside(wish)
    volume_gb = 0 if inside else _VOLUME_GB
    return Extras(root_gb + volume_gb, local_disk=inside, volume_gb=volume_gb)


def _disks(wish: Wish) -> tuple[Entry, ...]:
    where = (Entry("mount", "/data"), Entry("filesystem", "ext4"))
    data: tuple[Entry, ...] = (Entry("source", "instance-store", "a disk inside the machine: fast, and empty after a stop"), *where)
    if not _inside(wish):
        source = Entry("source", "volume", "a network disk: not every place here has a disk inside the machine")
        data = (source, Entry("size_gb", _VOLUME_GB), *where)
    root = Entry("size_gb", PURPOSES[wish.purpose].root_gb, "for the stack and for what must outlive a stop")
    return (Entry("root", (root,)), Entry("data", data))


def _software(wish: Wish, stack: _Stack) -> Iterator[Entry]:
    purpose, gpu = PURPOSES[wish.purpose], read.gpu(wish.gpu)
    yield Entry("driver", stack.driver, stack.why)
    yield Entry("cuda", "auto", "the newest for this driver, GPU and system; the lock has the version")
    yield Entry("cudnn", "auto" if purpose.pytorch else "none")
    if purpose.pytorch:
        yield Entry(
            "frameworks",
            (Entry("pytorch", "auto", f"the newest whose wheels have kernels for compute capability {gpu.compute_capability}"),),
        )
    yield Entry("opencv", "wheel", "without CUDA; enough to read and resize images")
    if purpose.video:
        yield Entry("ffmpeg", value=True, why=f"{gpu.name} {_ENCODER[gpu.nvenc]}")
    yield Entry("tools", ("gcc", "make", "cmake", "git", "tmux"))
    other = f"{', '.join(purpose.profilers[0])} do not all work on {gpu.name}" if stack.profilers != purpose.profilers[0] else ""
    yield Entry("profilers", stack.profilers, other)


def _gpu(wish: Wish, stack: _Stack) -> Iterator[Entry]:
    gpu, count = read.gpu(wish.gpu), _count(wish)
    yield Entry("model", wish.gpu)
    more = ", ".join(f"{m.offer.instance_type} has {m.offer.gpus:g}" for m in wish.machines if m.offer.gpus > count)
    yield Entry("count", count, f"or more: {more}" if more else "")
    yield Entry("counters", stack.counters, _COUNTERS[stack.counters])
    yield Entry("persistence", value=True, why="otherwise the driver unloads between runs and forgets the clocks")
    clocks, power = _clocks(gpu), f"; a limit of {gpu.power_w} W may hold them lower under load" if gpu.power_w else ""
    if clocks is None:
        yield Entry("application_clocks", "max", "the catalog has no figures for this card, so its own highest are held")
    else:
        pair = (Entry("memory_mhz", clocks[0]), Entry("graphics_mhz", clocks[1]))
        yield Entry("application_clocks", pair, f"the highest of this card, so that runs compare{power}")
