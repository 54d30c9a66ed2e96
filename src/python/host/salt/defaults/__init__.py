"""Constants."""

DEFAULT_TARGET_DELIM = ":"
