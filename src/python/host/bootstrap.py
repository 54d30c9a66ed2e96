# Started as `python3 -IBSu -c`: takes the connection from standard input, reads our own program from it and runs that.
import builtins
import fcntl
import marshal
import os
import sys

if sys.version_info < (3, 8):
    sys.exit("Python 3.8 or later is needed, and this is %d.%d" % sys.version_info[:2])
fd, life = os.dup(0), os.dup(1)
null = os.open("/dev/null", os.O_RDONLY)
os.dup2(null, 0)
os.close(null)
os.dup2(2, 1)
# When halite closes its end of this pipe, the kernel sends SIGKILL (F_SETSIG) to this process group, whatever runs here.
fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpid())
fcntl.fcntl(life, 10, 9)
fcntl.fcntl(life, fcntl.F_SETFL, os.O_ASYNC)
with os.fdopen(os.dup(fd), "rb") as stream:
    sources = marshal.loads(stream.read(int.from_bytes(stream.read(4), "little")))
space = {"SOURCES": sources}
exec(compile(sources["halite.finder"], "<halite.finder>", "exec"), space)
sys.meta_path.insert(0, space["Finder"](sources))
# `site` takes longer than all the rest of a start: what it does is left until something needs it.
builtins.exit = builtins.quit = sys.exit
space["LateSite"]("salt" not in sources)
from halite.main import main

main(fd, life, "salt" not in sources)
