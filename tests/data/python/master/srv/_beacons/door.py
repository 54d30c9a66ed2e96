"""Tells when a file has changed its content; what it has seen is kept between polls."""
import os

SEEN = {}


def validate(config):
    paths = [one["path"] for one in config if "path" in one]
    if not paths:
        return False, "the door beacon needs a path"
    return True, "Valid beacon configuration"


def beacon(config):
    path = [one["path"] for one in config if "path" in one][0]
    if not os.path.exists(path):
        return []
    with open(path) as file:
        text = file.read().strip()
    before, SEEN[path] = SEEN.get(path), text
    if before == text:
        return []
    return [{"tag": text or "empty", "before": before, "now": text, "count": __context__.setdefault("door", []).append(1) or len(__context__["door"])}]
