"""What this machine can do at best, from benches/ceilings.rs."""
import json
import subprocess

from . import figures
from .masters import Failed


def measure(top, quick):
    """CPU milliseconds per operation by name. Raises Failed if it cannot be built or run."""
    argv = ["cargo", "bench", "--quiet", "--bench", "ceilings", "--", "--json", *(["--quick"] if quick else [])]
    ran = subprocess.run(argv, cwd=top, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    if ran.returncode:
        raise Failed(f"{' '.join(argv)}: exit status {ran.returncode}")
    return json.loads(ran.stdout)


def table(found):
    """Header and rows of the table."""
    return ["what", "CPU ms each"], [[name, figures.number(ms)] for name, ms in found.items()]
