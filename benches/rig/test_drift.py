"""Series that drift.py must accept, and series that it must not."""
import math
import random
import unittest

from . import drift
from .drift import Limits

HOUR = range(0, 3600, 5)


def series(value, at=HOUR):
    return [(float(t), value(t)) for t in at]


class Memory(unittest.TestCase):
    def setUp(self):
        self.noise = random.Random(8)

    def passes(self, samples, limits=Limits()):
        self.assertIsNone(drift.memory(samples, limits))

    def fails(self, samples, limits=Limits()):
        self.assertIsNotNone(drift.memory(samples, limits))

    def test_flat_passes(self):
        self.passes(series(lambda t: 10.0))

    def test_noise_passes(self):
        self.passes(series(lambda t: 10 + self.noise.gauss(0, 2)))

    def test_waves_pass(self):
        self.passes(series(lambda t: 10 + 3 * math.sin(t / 120)))

    def test_growth_that_ends_within_the_warm_up_passes(self):
        self.passes(series(lambda t: min(20.0, 10 + t / 60)))

    def test_single_peaks_pass(self):
        self.passes(series(lambda t: 60.0 if t % 600 == 0 else 10.0))

    def test_a_peak_that_lasts_at_the_end_passes(self):
        self.passes(series(lambda t: 25.0 if t > 3400 else 10.0))

    def test_small_growth_passes(self):
        self.passes(series(lambda t: 10 + 1.5 * t / 3600))

    def test_shrinking_passes(self):
        self.passes(series(lambda t: 40 - 20 * t / 3600))

    def test_a_steady_leak_fails(self):
        self.fails(series(lambda t: 10 + 3 * t / 3600))

    def test_a_leak_in_noise_fails(self):
        self.fails(series(lambda t: 10 + 6 * t / 3600 + self.noise.gauss(0, 2)))

    def test_a_leak_below_peaks_fails(self):
        self.fails(series(lambda t: (60.0 if t % 600 == 0 else 10.0) + 5 * t / 3600))

    def test_a_leak_in_steps_fails(self):
        self.fails(series(lambda t: 10.0 + 2 * (t // 600)))

    def test_a_fast_leak_in_a_short_run_fails(self):
        self.fails(series(lambda t: 10 + t / 20, range(0, 120, 2)))

    def test_a_short_run_with_little_growth_passes(self):
        self.passes(series(lambda t: 10 + 0.5 * t / 120, range(0, 120, 2)))

    def test_the_bound_holds_at_any_time(self):
        limits = Limits(memory_most=50.0)
        self.passes(series(lambda t: 49.0), limits)
        self.fails(series(lambda t: 51.0 if t == 100 else 10.0), limits)

    def test_no_samples_pass(self):
        self.passes([])
        self.passes([(0.0, 10.0)])


class Descriptors(unittest.TestCase):
    def passes(self, samples):
        self.assertIsNone(drift.descriptors(samples, Limits()))

    def fails(self, samples):
        self.assertIsNotNone(drift.descriptors(samples, Limits()))

    def test_connections_that_come_and_go_pass(self):
        noise = random.Random(8)
        self.passes(series(lambda t: 20 + noise.randrange(200)))

    def test_what_is_open_only_at_the_end_passes(self):
        self.passes(series(lambda t: 220 if t > 3400 else 20))

    def test_a_leak_fails(self):
        self.fails(series(lambda t: 20 + t // 300))

    def test_a_leak_below_connections_fails(self):
        noise = random.Random(8)
        self.fails(series(lambda t: 20 + t // 60 + noise.randrange(200)))

    def test_what_is_left_at_rest_is_counted(self):
        self.assertIsNone(drift.rest(20, 22, Limits()))
        self.assertIsNotNone(drift.rest(20, 23, Limits()))


if __name__ == "__main__":
    unittest.main()
