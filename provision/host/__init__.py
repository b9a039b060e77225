"""How a host is reached: system OpenSSH, or this machine itself."""
