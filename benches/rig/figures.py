"""Figures of several rounds: medians, ratios with their spread, and tables."""
import statistics


def median(values):
    """The median."""
    return statistics.median(values)


def number(value):
    """A figure with three significant digits."""
    if value is None:
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    places = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3 if size >= 0.1 else 4
    return f"{value:.{places}f}"


def spread(values):
    """The median and, if there are several rounds, the lowest and the highest value."""
    if not values:
        return "-"
    middle = number(median(values))
    if len(values) == 1:
        return middle
    return f"{middle} ({number(min(values))} to {number(max(values))})"


def ratios(stock, halite):
    """Stock divided by halite for each round that has both."""
    return [a / b for a, b in zip(stock, halite) if b]


def markdown(heads, rows):
    """A table in Markdown."""
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def plain(heads, rows):
    """The same table for a terminal."""
    widths = [max(map(len, column)) for column in zip(heads, *rows)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [heads, *rows])
