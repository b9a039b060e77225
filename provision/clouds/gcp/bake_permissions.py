"""What making an image needs beside a launch, on GCP.

"IAM Permissions" of images.insert, images.delete, images.deprecate and images.list in the reference of Compute Engine
(https://docs.cloud.google.com/compute/docs/reference/rest/v1/images), and of the aggregatedList of instanceGroupManagers and
instanceTemplates, by which a removal finds what uses an image; that a source disk needs `compute.disks.useReadOnly` and labels
`compute.images.setLabels`: "Create an image" of docs.cloud.google.com/compute/docs/images/create-custom, from memory.
"""

from typing import Final

ACTIONS: Final = (
    "compute.disks.useReadOnly",
    "compute.globalOperations.get",
    "compute.images.create",
    "compute.images.delete",
    "compute.images.deprecate",
    "compute.images.get",
    "compute.images.list",
    "compute.images.setLabels",
    "compute.images.useReadOnly",
    "compute.instanceGroupManagers.list",
    "compute.instanceTemplates.list",
)
"""What making, replacing and removing images needs; the machine needs what any launch needs."""
