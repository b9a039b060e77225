"""One file a recipe. Each has `run(bench, seconds)`, and is read by the host, not by us."""
