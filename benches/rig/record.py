"""The file with all figures, written again after each of them, so that a run that is cut off loses nothing."""
import json
import os


class Record:
    """Figures of the parts `compare`, `ceilings` and `sizing`; what is not measured now stays from earlier runs."""

    def __init__(self, path, machine):
        """`path` is None to keep nothing. Figures of another machine are forgotten."""
        self.path = path
        self.parts = {}
        if path and os.path.exists(path):
            with open(path) as f:
                self.parts = json.load(f)
        if machine and self.parts.get("machine") != machine:
            self.parts = {"machine": machine}

    def get(self, part):
        """A part that there is, or an empty one."""
        return self.parts.get(part, {})

    def put(self, part, value):
        """Keeps a part."""
        self.parts[part] = value
        self.save()

    def save(self):
        """Writes everything; at any time the file is whole."""
        if not self.path:
            return
        with open(f"{self.path}.new", "w") as f:
            json.dump(self.parts, f, indent=1)
        os.replace(f"{self.path}.new", self.path)
