"""gpuprov: one reviewed YAML profile, from launch to a proven GPU host."""

__version__ = "0.1.0"
