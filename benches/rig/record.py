"""The file with all figures. It is rewritten after each figure, so that an interrupted run loses nothing."""
import json
import os


class Record:
    """Figures of the parts `compare`, `states`, `ceilings` and `sizing`; those not measured now are kept from earlier runs."""

    def __init__(self, path, machine):
        """If `path` is None, nothing is written. Figures of another machine are dropped."""
        self.path = path
        self.parts = {}
        if path and os.path.exists(path):
            with open(path) as f:
                self.parts = json.load(f)
        if machine and self.parts.get("machine") != machine:
            self.parts = {"machine": machine}

    def get(self, part):
        """A part, empty if it does not exist."""
        return self.parts.get(part, {})

    def put(self, part, value):
        """Stores a part."""
        self.parts[part] = value
        self.save()

    def save(self):
        """Writes everything; the file is complete at any time."""
        if not self.path:
            return
        with open(f"{self.path}.new", "w") as f:
            json.dump(self.parts, f, indent=1)
        os.replace(f"{self.path}.new", self.path)
