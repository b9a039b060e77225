"""The embedded GCP: compute.v1 over HTTP, checked against Google's own discovery document; nothing of it is anybody else's code."""
