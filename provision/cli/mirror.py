"""`gpuprov mirror`."""

from pathlib import Path

import click

from provision.cli import options
from provision.cli.progress import narration
from provision.errors import counted
from provision.workflow.mirror import fill_for


@click.command("mirror")
@options.profile_to_plan
@click.option(
    "-o",
    "--output",
    metavar="DIR",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to fill. Until all is there it is called DIR.part, and the next run goes on from there.",
)
@options.as_json
def command(*, profile: str, output: Path, as_json: bool) -> None:
    """On a machine with a network, fill a folder with everything that `gpuprov apply HOST --from DIR` needs.

    It holds the signed indices as they are, the packages of the lock with all that they depend on, the keys, and the wheels
    with the hashes of the lock. A folder that is complete stays as it is.
    """
    with narration() as narrator:
        filled = fill_for(profile, output, narrator.say)
    folder = filled.folder
    data = {
        "folder": str(folder.folder),
        "lock": folder.lock,
        "sha256": folder.digest,
        "made": folder.day,
        "files": len(folder.files),
        "bytes": folder.bytes,
        "downloaded": filled.downloaded,
    }
    how = "complete already" if filled.complete_before else f"{filled.downloaded / 1e6:.1f} MB downloaded"
    line = f"{folder.folder}: {counted(len(folder.files), 'file')}, {folder.bytes / 1e6:.1f} MB, {how} (sha256:{folder.digest})"
    options.show(data, line, f"carry it, and `gpuprov apply HOST --profile {profile} --from {folder.folder}`", as_json=as_json)
