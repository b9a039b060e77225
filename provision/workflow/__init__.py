"""What the verbs of the command line do: one module for each, and those that several verbs share.

The law of this room: a verb is a list of steps. A step takes values and returns a value, and no step fills in what another one left open.
Nothing here reads the words of a command line or prints: progress goes to a callback, results are dataclasses, failures are errors. A
verb that is a single call of another room has no module here.
"""
