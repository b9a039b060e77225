"""What travels to a host for a trace."""
