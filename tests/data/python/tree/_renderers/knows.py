"""Tells what a renderer is given."""
import io


def render(data, saltenv="base", sls="", argline="", **kwargs):
    kind = "text" if isinstance(data, str) else "stream" if hasattr(data, "read") else type(data).__name__
    seen = "%s %s %s [%s] %s %s" % (kind, saltenv, sls, argline, __salt__["test.echo"]("salt"), __grains__["kernel"])
    return {
        "seen": {"test.nop": [{"name": seen}]},
        "keywords": {"test.nop": [{"name": " ".join(sorted(kwargs))}]},
        "dunders": {"test.nop": [{"name": " ".join([__opts__["id"], __pillar__["corpus"]["name"]])}]},
    }
