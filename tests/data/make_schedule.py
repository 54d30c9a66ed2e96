#!/usr/bin/env python3
"""Makes schedule.json: when stock Salt's schedule runs which function, second by second of simulated time.

Run it with the Python of a virtual environment that has Salt. Each entry is a schedule as YAML, the
seconds that are simulated, and what ran: the second, the name of the job, the function.
"""

import datetime
import json
import os
import tempfile

import yaml

import salt.utils.schedule

START = datetime.datetime(2026, 11, 21, 12, 0, 0)

SCHEDULES = [
    ("a: {function: f, seconds: 10}", 35),
    ("a: {function: f, seconds: 10, run_on_start: false}", 35),
    ("a: {function: f, minutes: 1, seconds: 5}", 200),
    ("a: {function: f, seconds: 5, enabled: false}\nb: {function: g, seconds: 7}", 20),
    ("enabled: false\na: {function: f, seconds: 5}", 20),
    ("a: {function: f, when: '2026-11-21 12:00:10'}", 30),
    ("a: {function: f, when: ['2026-11-21 12:00:10', '2026-11-21 12:00:20', '2026-11-21 11:00']}", 30),
    ("a: {function: f, once: '2026-11-21T12:00:10'}", 30),
    ("a: {function: f, once: '21.11.2026 12:00:10', once_fmt: '%d.%m.%Y %H:%M:%S'}", 30),
    ("a: {function: f, once: '21.11.2026 11:00:10', once_fmt: '%d.%m.%Y %H:%M:%S'}", 30),
    ("a: {function: f, cron: '* * * * *'}", 200),
    # Ranges.
    ("a: {function: f, seconds: 10, range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35'}}", 60),
    ("a: {function: f, seconds: 10, range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35', invert: true}}", 60),
    ("a: {function: f, seconds: 10, skip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35'}}", 60),
    ("a: {function: f, seconds: 10, run_after_skip_range: true, skip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:33'}}", 60),
    ("a: {function: f, when: '2026-11-21 12:00:20', run_after_skip_range: true, skip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:33'}}", 60),
    ("a: {function: f, cron: '* * * * *', run_after_skip_range: true, skip_during_range: {start: '2026-11-21 12:00:50', end: '2026-11-21 12:01:33'}}", 200),
    ("skip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35'}\na: {function: f, seconds: 10}", 60),
    # What runs instead.
    ("skip_function: g\na: {function: f, seconds: 10, range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35'}}", 60),
    ("skip_function: g\na: {function: f, seconds: 10, range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35', invert: true}}", 60),
    ("skip_function: g\na: {function: f, seconds: 10, skip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35'}}", 60),
    ("skip_function: g\nskip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:35'}\na: {function: f, seconds: 10}\nb: {function: h, when: '2026-11-21 12:00:20'}", 60),
    ("skip_function: g\na: {function: f, seconds: 10, run_after_skip_range: true, skip_during_range: {start: '2026-11-21 12:00:15', end: '2026-11-21 12:00:33'}}", 60),
    ("skip_function: g\na: {function: f, when: '2026-11-21 12:00:20', skip_explicit: [{time: '2026-11-21T12:00:20', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 40),
    ("skip_function: g\na: {function: f, seconds: 10, until: '2026-11-21 12:00:25'}", 40),
    # Explicit times.
    ("a: {function: f, when: '2026-11-21 12:00:20', skip_explicit: [{time: '2026-11-21T12:00:20', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 40),
    ("a: {function: f, when: ['2026-11-21 12:00:20', '2026-11-21 12:00:30'], skip_explicit: [{time: '2026-11-21T12:00:20', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 50),
    ("a: {function: f, when: '2026-11-21 12:00:20', skip_explicit: [{time: '2026-11-21T12:00:20', time_fmt: '%Y-%m-%dT%H:%M:%S'}], run_explicit: [{time: '2026-11-21T12:00:30', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 50),
    ("a: {function: f, seconds: 10, skip_explicit: [{time: '2026-11-21T12:00:20', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 50),
    ("a: {function: f, seconds: 10, run_explicit: [{time: '2026-11-21T12:00:25', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 60),
    ("a: {function: f, seconds: 10, run_on_start: false, skip_explicit: [{time: '2026-11-21T12:00:10', time_fmt: '%Y-%m-%dT%H:%M:%S'}], run_explicit: [{time: '2026-11-21T12:00:25', time_fmt: '%Y-%m-%dT%H:%M:%S'}]}", 60),
    # Ends.
    ("a: {function: f, seconds: 10, until: '2026-11-21T12:00:25'}", 60),
    ("a: {function: f, seconds: 10, after: '2026-11-21T12:00:25'}", 60),
    ("a: {function: f, seconds: 10, run_on_start: false, after: '2026-11-21T12:00:25', until: '2026-11-21T12:00:45'}", 60),
    ("a: {function: f, seconds: 10, splay: {start: 3, end: 3}}", 60),
    ("splay: {start: 3, end: 3}\na: {function: f, seconds: 10}", 60),
    ("a: {function: f, when: '2026-11-21 12:00:20', splay: {start: 3, end: 3}}", 60),
]


class Schedule(salt.utils.schedule.Schedule):
    """Notes what would run."""

    def _run_job(self, func, data, jid=None):
        self.ran.append([self.second, data["name"], func])


def simulate(text, seconds):
    with tempfile.TemporaryDirectory() as directory:
        opts = {
            "__role": "minion", "id": "m1", "cachedir": directory, "loop_interval": 1,
            "schedule": yaml.safe_load(text), "pillar": {}, "grains": {}, "extension_modules": directory,
            "utils_dirs": [], "optimization_order": [0], "sock_dir": directory,
        }
        functions = {"f": None, "g": None, "h": None}
        schedule = Schedule(opts, functions, returners={}, utils={"x": 1}, new_instance=True)
        schedule.ran = []
        for second in range(seconds):
            schedule.second = second
            schedule.eval(now=START + datetime.timedelta(seconds=second))
        return schedule.ran


lines = [json.dumps([text, seconds, simulate(text, seconds)]) for text, seconds in SCHEDULES]
with open(os.path.join(os.path.dirname(__file__), "schedule.json"), "w") as out:
    out.write("[\n" + ",\n".join(lines) + "\n]\n")
