"""The default rule ``energy``."""
