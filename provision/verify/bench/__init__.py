"""What a measurement of a machine says, and what it means: `watch/bench` takes it, the check `bench` and `gpuprov bench` judge it."""
