"""Threads, child processes, environment, working directory, signals."""
import multiprocessing
import os
import queue
import signal
import subprocess
import tempfile
import threading


def threads():
    found = queue.Queue()
    workers = [threading.Thread(target=lambda n=n: found.put(n * n)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sorted(found.get() for _ in workers)


def thread_dunder():
    """A thread that uses what the module was given."""
    found = []

    def work():
        try:
            found.append(__salt__["test.echo"]("from a thread"))
        except Exception as error:
            found.append("%s: %s" % (type(error).__name__, error))

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()
    return found


def child():
    result = subprocess.run(["sh", "-c", "cat; echo err >&2; exit 2"], input=b"fed", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return [result.returncode, result.stdout.decode(), result.stderr.decode()]


def output():
    return subprocess.check_output(["echo", "checked"], universal_newlines=True).strip()


def failing():
    subprocess.check_call(["sh", "-c", "exit 9"])


def forked():
    pid = os.fork()
    if pid == 0:
        os._exit(6)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def pool():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        return workers.map(abs, [-1, -2, 3])


def environment():
    os.environ["CORPUS_VARIABLE"] = "set"
    return [os.environ["CORPUS_VARIABLE"], __salt__["cmd.run"]("echo $CORPUS_VARIABLE", python_shell=True), __salt__["processes.variable"]()]


def variable():
    return os.environ.get("CORPUS_VARIABLE")


def directory():
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        inside = os.getcwd() == os.path.realpath(made)
        os.chdir(before)
    return [inside, os.path.exists(made)]


def alarm():
    class Late(Exception):
        pass

    def ring(number, frame):
        raise Late("rang")

    old = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.pause()
    except Late as error:
        return str(error)
    finally:
        signal.signal(signal.SIGALRM, old)
