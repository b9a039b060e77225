"""Everything that `apply` of one lock downloads, as a folder that can be carried to a host without a way out."""
