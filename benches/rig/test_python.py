"""How python.py makes figures of what it reads, without any program."""
import os
import time
import types
import unittest

from . import procs, python
from .masters import Failed
from .minions import answer


class Calls(unittest.TestCase):
    def test_a_slow_batch_does_not_count_as_wall_time(self):
        marks = [[0.0, 1.0, 2], [0.1, 1.1, 2], [5.1, 1.2, 2], [5.2, 1.3, 2]]
        found = python.each("halite", marks, 100)
        self.assertAlmostEqual(found["wall"], 1000)
        self.assertAlmostEqual(found["cpu"], 1000)

    def test_clocks_of_the_wrong_processes_fail(self):
        marks = [[0.0, 1.0, 1], [0.1, 1.1, 1]]
        python.each("stock", marks, 1)
        with self.assertRaises(Failed):
            python.each("halite", marks, 1)

    def test_what_is_no_reading_fails(self):
        for said in ("'bench.calls' is not available.", [], [[0.0, 1.0, 2]], [1, 2], None):
            with self.assertRaises(Failed):
                python.each("halite", said, 1)

    def test_the_module_counts_calls(self):
        module = types.ModuleType("bench")
        exec(python.MODULE, module.__dict__)
        calls = []
        module.__salt__ = {"some.function": calls.append}
        marks = module.calls("some.function", 40, python.batch(40))
        self.assertEqual(len(calls), 41)
        self.assertEqual(len(marks), 3)
        self.assertEqual([len(mark) for mark in marks], [3, 3, 3])
        self.assertGreaterEqual(time.monotonic(), marks[-1][0])
        self.assertTrue(procs.lives(*module.who()))

    def test_batches_are_at_least_two(self):
        for count in (2, 5, 40, 200, 2000):
            self.assertGreaterEqual(count // python.batch(count), 2)


class Jobs(unittest.TestCase):
    def test_portions_are_all_jobs(self):
        for jobs in (1, 4, 5, 6, 10, 23):
            self.assertEqual(sum(python.portions(jobs)), jobs)

    def test_an_answer_is_that_of_the_only_minion(self):
        self.assertEqual(answer('{"bench": [1, 2]}'), [1, 2])
        for said in ("", "null", "{}", '{"a": 1, "b": 2}', "Minion did not return."):
            with self.assertRaises(Failed):
                answer(said)

    def test_a_process_that_started_at_another_time_is_another_one(self):
        self.assertFalse(procs.lives(os.getpid(), -1))


class Hosts(unittest.TestCase):
    class Minion:
        """Answers `bench.who` with the pid and the start of a process."""

        def __init__(self, said):
            self.said = said

        def ask(self, *_):
            return 0.5, self.said

    def setUp(self):
        self.addCleanup(setattr, python, "END", python.END)
        python.END = 0

    def test_one_that_outlives_its_job_fails(self):
        module = types.ModuleType("bench")
        exec(python.MODULE, module.__dict__)
        with self.assertRaises(Failed):
            python.pythons(self.Minion(module.who()), 2)

    def test_those_that_are_gone_pass(self):
        self.assertEqual(python.pythons(self.Minion([os.getpid(), -1]), 2), [0.5, 0.5])

    def test_no_answer_fails(self):
        with self.assertRaises(Failed):
            python.pythons(self.Minion("'bench.who' is not available."), 1)


class Table(unittest.TestCase):
    plan = {"jobs": 10, "states": 200}

    def test_differences_have_no_ratio(self):
        found = {"first-cpu": {"stock": [300.0], "halite": [30.0]}, "first-more-cpu": {"stock": [-1.0], "halite": [20.0]}}
        heads, lines = python.table(found, self.plan)
        self.assertEqual(heads, ["work", "unit", "stock", "halite", "stock / halite", "goal"])
        self.assertEqual([line[2:] for line in lines], [["300", "30.0", "10.0", "-"], ["-1.00", "20.0", "-", "60.0"]])

    def test_one_kind_has_no_ratios(self):
        heads, lines = python.table({"memory-host": {"halite": [8.0]}}, self.plan)
        self.assertEqual(heads, ["work", "unit", "halite", "goal"])
        self.assertEqual(len(lines[0]), len(heads))

    def test_rows_have_names_of_their_own(self):
        names = [row.name for row in python.ROWS]
        self.assertEqual(len(names), len(set(names)))


if __name__ == "__main__":
    unittest.main()
