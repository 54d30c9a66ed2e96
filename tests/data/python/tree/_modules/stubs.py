"""Defines the dunders for the sake of linters, and defaults for options."""

__salt__ = {}
__grains__ = {}
__opts__ = {"stubs.default": "from the module", "id": "not this"}
__pillar__ = {}
__context__ = {}


def look():
    return [__opts__.get("stubs.default"), __opts__["id"], "test.ping" in __salt__, __grains__.get("kernel"), __pillar__.get("corpus", {}).get("name")]


def configured():
    return __salt__["config.option"]("stubs.default")
