"""Raises."""
from salt.exceptions import SaltRenderError


def render(data, saltenv="base", sls="", argline="", **kwargs):
    if "salt" in argline:
        raise SaltRenderError("rendering failed")
    raise ValueError("value of the renderer")
