"""Google Compute Engine through google-cloud-compute, the only home of that library."""
