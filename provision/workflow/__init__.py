"""The verbs as lists of steps: what a command does, in the order in which it does it."""
