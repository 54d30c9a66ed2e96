"""The part of Salt's package that users' modules import most, for modules that halite runs. Our own code."""
import builtins as _builtins

# Salt's modules find it without an import.
_builtins.__salt_system_encoding__ = "utf-8"
