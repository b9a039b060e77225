"""Google Compute Engine. Only what the catalogue asks of it; launching is not part of this release."""
