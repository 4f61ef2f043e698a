"""What a probe saw, and figures of it with how sure they are."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstwobign, wasserstein_distance

Floats = NDArray[np.float64]

# Ethernet, IP and UDP.
HEADERS = 42
# A figure is had again without each of so many stretches of datagrams in turn;
# how it varies then (the jackknife) is how sure it is, and knows of correlations
# that are shorter than a stretch.
STRETCHES = 40


@dataclass
class Series:
    """Datagrams by number; what did not come is not a number."""

    delay: Floats  # ms, of the first copy
    place: Floats  # of the first copy among all arrivals
    copies: Floats
    turned: Floats  # copies with a bit turned over
    came: Floats  # s, all arrivals
    wire: int  # bytes of a frame

    @classmethod
    def read(cls, file: Path, count: int, size: int) -> "Series":
        """Reads the lines of `probe receive`."""
        lines = np.loadtxt(file, dtype=np.int64, ndmin=2).reshape(-1, 4)
        lines = lines[lines[:, 0] < count]
        number, sent, came, turned = lines.T
        delay, place = np.full(count, np.nan), np.full(count, np.nan)
        first, where = np.unique(number, return_index=True)
        delay[first] = (came - sent)[where] / 1e6
        place[first] = where
        copies = np.bincount(number, minlength=count).astype(np.float64)
        bad = np.bincount(number, weights=turned, minlength=count).astype(np.float64)
        return cls(delay, place, copies, bad, came / 1e9, size + HEADERS)

    def part(self, keep: NDArray[np.bool_]) -> "Series":
        """Some of the datagrams."""
        delay, place = self.delay[keep], self.place[keep]
        return Series(delay, place, self.copies[keep], self.turned[keep], self.came, self.wire)

    def lost(self) -> float:
        """Share of datagrams that never came, in %."""
        return 100 * float(np.mean(self.copies == 0))

    def again(self) -> float:
        """Share of datagrams that came more than once, in %."""
        return 100 * float(np.mean(self.copies > 1))

    def corrupt(self) -> float:
        """Share of arrivals with a bit turned over, in %."""
        return 100 * float(self.turned.sum() / max(self.copies.sum(), 1))

    def mean(self) -> float:
        """Mean delay in ms."""
        return float(np.nanmean(self.delay))

    def deviation(self) -> float:
        """Standard deviation of the delay in ms."""
        return float(np.nanstd(self.delay))

    def late(self) -> float:
        """Share of what came that came after a higher number, in %."""
        place = self.place[~np.isnan(self.place)]
        earliest_after = np.minimum.accumulate(place[::-1])[::-1]
        return 100 * float(np.mean(earliest_after[1:] < place[:-1])) if len(place) > 1 else 0.0

    def overtaking(self) -> float:
        """Share of what came that had less than half of the longest delay, in %."""
        delay = self.delay[~np.isnan(self.delay)]
        return 100 * float(np.mean(delay < delay.max() / 2))

    def run(self) -> float:
        """Mean number of losses in a row."""
        return run(self.copies == 0)

    def again_run(self) -> float:
        """Mean number of duplicated datagrams in a row."""
        return run(self.copies > 1)

    def corrupt_run(self) -> float:
        """Mean number of corrupted datagrams in a row."""
        return run(self.turned > 0)

    def delay_correlation(self) -> float:
        """Of the delays of two datagrams in a row."""
        return correlation(self.delay)

    def throughput(self) -> float:
        """kbit/s between the first arrival and the last, headers included."""
        time = float(self.came.max() - self.came.min())
        return 8 * self.wire * (len(self.came) - 1) / time / 1000


def run(what: NDArray[np.bool_]) -> float:
    """Mean length of a run of true."""
    begins = what & ~np.concatenate(([False], what[:-1]))
    return float(what.sum() / max(begins.sum(), 1))


def correlation(values: Floats) -> float:
    """Of one value with the next, where both are there."""
    one, next_one = values[:-1], values[1:]
    both = ~np.isnan(one) & ~np.isnan(next_one)
    if both.sum() < 3 or np.std(one[both]) == 0 or np.std(next_one[both]) == 0:
        return 0.0
    return float(np.corrcoef(one[both], next_one[both])[0, 1])


def error(series: Series, figure: Callable[[Series], float]) -> float:
    """The standard error of a figure."""
    place = np.arange(len(series.delay)) * STRETCHES // len(series.delay)
    had = np.array([figure(series.part(place != out)) for out in range(STRETCHES)])
    return float(np.sqrt((STRETCHES - 1) / STRETCHES * np.sum((had - had.mean()) ** 2)))


@dataclass
class Distance:
    """How far two distributions of delays are from each other."""

    largest: float  # of the distribution functions (Kolmogorov, Smirnov)
    chance: float  # of at least that if they are the same
    mean: float  # ms that delays have to be moved by to make them equal


def distance(one: Series, other: Series, grid: float) -> Distance:
    """Compares delays, for the test rounded to `grid` ms."""
    a, b = (series.delay[~np.isnan(series.delay)] for series in (one, other))
    coarse = np.sort(np.round(a / grid)), np.sort(np.round(b / grid))
    values = np.unique(np.concatenate(coarse))
    below = (np.searchsorted(delays, values, side="right") / len(delays) for delays in coarse)
    largest = float(np.max(np.abs(np.subtract(*below))))
    # Correlated delays say less than as many independent ones.
    weight = 1 / sum(1 / (len(s.delay) * independent(s)) for s in (one, other))
    chance = float(kstwobign.sf(largest * np.sqrt(weight)))
    return Distance(largest, chance, float(wasserstein_distance(a, b)))


def independent(series: Series) -> float:
    """How many independent values one of the series counts for."""
    correlated = max(series.delay_correlation(), 0.0)
    return (1 - correlated) / (1 + correlated) * float(np.mean(series.copies > 0))
