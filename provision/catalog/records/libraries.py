"""Components of `stack.extras` that depend on the rest of the stack: a release for some cards and systems, and a build from source."""

import msgspec

from provision.catalog.records.base import Capabilities, CatalogRecord, Covers, version


class LibraryRelease(CatalogRecord, frozen=True):
    """A release that is installed as packages of NVIDIA's repositories, with its Python part as a wheel of the same release.

    Attributes:
        cuda: what the packages were built with; they run with any CUDA of that major release.
        driver: the oldest branch.
        repositories: NVIDIA's folders that have the packages.
        package: package manager → the version of every package.
        requirement: of the Python part, for the index.
    """

    version: str
    cuda: str
    driver: str
    compute_capability: Capabilities
    repositories: list[str]
    package: dict[str, str]
    requirement: str
    sources: Covers

    @property
    def soname(self) -> str:
        """The major version, which is in the names of the libraries."""
        return self.version.split(".", maxsplit=1)[0]

    def runs(
        self, *, capability: str | None = None, repository: str | None = None, cuda: str | None = None, driver: str | None = None
    ) -> bool:
        """Whether it serves a part of a stack; a part that is None does not count."""
        return (
            (capability is None or self.compute_capability.cover(capability))
            and (repository is None or repository in self.repositories)
            and (cuda is None or version(cuda)[0] == version(self.cuda)[0])
            and (driver is None or version(driver) >= version(self.driver))
        )


class SourceBuild(CatalogRecord, frozen=True):
    """A source distribution that is built once against the host's PyTorch, for one GPU.

    Attributes:
        sha256: of its file on the index.
        requirements: major version of CUDA, or `any` → what it runs with beside PyTorch, for the index.
        tools: of the build.
        environment: variables of the build; `<…>` stands for a value of the lock.
        code: compute capability of the GPU → the architecture that is compiled; the newest that is not above the GPU's counts.
        cudnn_from: the oldest cuDNN of PyTorch's wheels that it runs with.
        job_gb: memory that one job of the compiler takes.
        built: the systems, toolkits and PyTorch it has been built with, in words.
    """

    name: str
    version: str
    sha256: str
    requirements: dict[str, list[str]]
    tools: list[str]
    environment: dict[str, str]
    job_gb: int
    sources: Covers
    code: dict[str, str] = msgspec.field(default_factory=dict)
    cudnn_from: str = "0"
    built: list[str] = msgspec.field(default_factory=list)

    def of_major(self, cuda: str) -> list[str]:
        """What it runs with under a CUDA version."""
        return self.requirements.get("any") or self.requirements.get(cuda.split(".", maxsplit=1)[0], [])

    def architecture(self, capability: str) -> str:
        """The architecture that is compiled for a GPU; empty where the build takes none."""
        fitting = [known for known in self.code if version(known) <= version(capability)]
        return self.code[max(fitting, key=version)] if fitting else ""
