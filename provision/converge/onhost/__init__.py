"""What runs on a host that sets itself up: the bundle is checked, unpacked and switched to, and its roles are run there."""
