"""Dunders at the top of the module."""
AT_TOP = {}
for name in ("__opts__", "__salt__", "__grains__", "__pillar__", "__context__", "__utils__", "__proxy__"):
    AT_TOP[name] = name in globals()
try:
    WHO = __opts__["id"]
except Exception as error:
    WHO = type(error).__name__
try:
    KERNEL = __grains__["kernel"]
except Exception as error:
    KERNEL = type(error).__name__
try:
    ECHO = __salt__["test.echo"]("at the top")
except Exception as error:
    ECHO = type(error).__name__


def run():
    return [AT_TOP, WHO, KERNEL, ECHO]
