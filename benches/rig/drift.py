"""Decides from series of samples whether a process grows. Uses no clock and no files."""
from dataclasses import dataclass
from statistics import median

# Fraction of a series that counts as warm-up, while caches and allocators fill.
WARM_UP = 0.25
# Medians of this many equal spans are used, so that the slope is that of the whole and not of one peak.
BINS = 60


@dataclass(frozen=True)
class Limits:
    """Limits of growth of a process."""

    # Memory per hour, in MiB.
    memory_per_hour: float = 2.0
    # Growth in total, in MiB, that is accepted whatever its slope: an allocator's pages, a full buffer.
    memory_noise: float = 1.0
    # Growth of the number of descriptors in total.
    descriptors: int = 3
    # Memory at any time, in MiB; None for no limit.
    memory_most: float | None = None


def slope(points):
    """Theil and Sen's: the median of the slopes between all pairs of points (x, y); 0 for fewer than two.

    Up to 29 of 100 points may be outliers without changing it much."""
    slopes = [(y2 - y1) / (x2 - x1) for i, (x1, y1) in enumerate(points) for x2, y2 in points[i + 1:] if x2 != x1]
    return median(slopes) if slopes else 0.0


def warm(samples):
    """The samples (seconds, value) without the warm-up."""
    if not samples:
        return []
    first, last = samples[0][0], samples[-1][0]
    return [s for s in samples if s[0] >= first + (last - first) * WARM_UP]


def binned(samples, bins=BINS):
    """One point per span of time: the median time and value of its samples."""
    if not samples:
        return []
    first = samples[0][0]
    span = (samples[-1][0] - first) / bins or 1.0
    groups = {}
    for at, value in samples:
        groups.setdefault(min(int((at - first) / span), bins - 1), []).append((at, value))
    return [(median(at for at, _ in group), median(value for _, value in group)) for _, group in sorted(groups.items())]


def thirds(values):
    """The first and the last third, at least one value each."""
    size = max(1, len(values) // 3)
    return values[:size], values[-size:]


def memory(samples, limits):
    """Complaint about samples (seconds, MiB), or None."""
    if limits.memory_most is not None and samples:
        most = max(value for _, value in samples)
        if most > limits.memory_most:
            return f"memory reaches {most:.1f} MiB, more than {limits.memory_most:.1f}"
    points = binned(warm(samples))
    per_hour = slope(points) * 3600
    first, last = thirds([value for _, value in points]) if points else ([0], [0])
    grown = median(last) - median(first)
    if per_hour > limits.memory_per_hour and grown > limits.memory_noise:
        return f"memory grows by {per_hour:.1f} MiB an hour, {grown:.1f} MiB between the first and the last third"
    return None


def descriptors(samples, limits):
    """Complaint about samples (seconds, number), or None.

    Connections come and go with the load; a leak raises the minimum."""
    values = [value for _, value in warm(samples)]
    if not values:
        return None
    first, last = thirds(values)
    grown = min(last) - min(first)
    if grown >= limits.descriptors and median(last) > median(first):
        return f"descriptors grow: at least {min(first)} in the first third, {min(last)} in the last"
    return None


def rest(before, after, limits):
    """Complaint about descriptors that are still open after the load, or None."""
    if after - before >= limits.descriptors:
        return f"{after} descriptors are open after the load and {before} were before it"
    return None
