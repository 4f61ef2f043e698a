"""The datagrams that a probe received, and figures of them with standard errors."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kstwobign, wasserstein_distance

Floats = NDArray[np.float64]

# Ethernet, IP and UDP.
HEADERS = 42
# Number of stretches of the jackknife: a figure is computed again without each stretch
# of datagrams in turn. Its variation gives the standard error, which includes
# correlations shorter than a stretch.
STRETCHES = 40


@dataclass
class Series:
    """Datagrams by number; lost ones are NaN."""

    delay: Floats  # ms, of the first copy
    place: Floats  # of the first copy among all arrivals
    copies: Floats
    corrupted: Floats  # copies with a flipped bit
    arrived: Floats  # s, all arrivals
    wire: int  # bytes of a frame

    @classmethod
    def read(cls, file: Path, count: int, size: int) -> "Series":
        """Reads the lines of `probe receive`."""
        lines = np.loadtxt(file, dtype=np.int64, ndmin=2).reshape(-1, 4)
        lines = lines[lines[:, 0] < count]
        number, sent, arrived, corrupted = lines.T
        delay, place = np.full(count, np.nan), np.full(count, np.nan)
        first, where = np.unique(number, return_index=True)
        delay[first] = (arrived - sent)[where] / 1e6
        place[first] = where
        copies = np.bincount(number, minlength=count).astype(np.float64)
        bad = np.bincount(number, weights=corrupted, minlength=count).astype(np.float64)
        return cls(delay, place, copies, bad, arrived / 1e9, size + HEADERS)

    def part(self, keep: NDArray[np.bool_]) -> "Series":
        """Some of the datagrams."""
        delay, place = self.delay[keep], self.place[keep]
        return Series(
            delay, place, self.copies[keep], self.corrupted[keep], self.arrived, self.wire
        )

    def lost(self) -> float:
        """Share of datagrams that never arrived, in %."""
        return 100 * float(np.mean(self.copies == 0))

    def duplicated(self) -> float:
        """Share of datagrams that arrived more than once, in %."""
        return 100 * float(np.mean(self.copies > 1))

    def corrupted_share(self) -> float:
        """Share of arrivals with a flipped bit, in %."""
        return 100 * float(self.corrupted.sum() / max(self.copies.sum(), 1))

    def mean(self) -> float:
        """Mean delay in ms."""
        return float(np.nanmean(self.delay))

    def deviation(self) -> float:
        """Standard deviation of the delay in ms."""
        return float(np.nanstd(self.delay))

    def reordered(self) -> float:
        """Share of received datagrams that arrived after a higher number, in %."""
        place = self.place[~np.isnan(self.place)]
        earliest_after = np.minimum.accumulate(place[::-1])[::-1]
        return 100 * float(np.mean(earliest_after[1:] < place[:-1])) if len(place) > 1 else 0.0

    def overtaking(self) -> float:
        """Share of received datagrams with less than half of the longest delay, in %."""
        delay = self.delay[~np.isnan(self.delay)]
        return 100 * float(np.mean(delay < delay.max() / 2))

    def loss_run(self) -> float:
        """Mean number of consecutive losses."""
        return run(self.copies == 0)

    def duplicated_run(self) -> float:
        """Mean number of consecutive duplicated datagrams."""
        return run(self.copies > 1)

    def corrupted_run(self) -> float:
        """Mean number of consecutive corrupted datagrams."""
        return run(self.corrupted > 0)

    def delay_correlation(self) -> float:
        """Correlation of the delays of two consecutive datagrams."""
        return correlation(self.delay)

    def throughput(self) -> float:
        """kbit/s between the first arrival and the last, headers included."""
        time = float(self.arrived.max() - self.arrived.min())
        return 8 * self.wire * (len(self.arrived) - 1) / time / 1000


def run(what: NDArray[np.bool_]) -> float:
    """Mean length of a run of true values."""
    begins = what & ~np.concatenate(([False], what[:-1]))
    return float(what.sum() / max(begins.sum(), 1))


def correlation(values: Floats) -> float:
    """Correlation of each value with the next, where both exist."""
    one, next_one = values[:-1], values[1:]
    both = ~np.isnan(one) & ~np.isnan(next_one)
    if both.sum() < 3 or np.std(one[both]) == 0 or np.std(next_one[both]) == 0:
        return 0.0
    return float(np.corrcoef(one[both], next_one[both])[0, 1])


def error(series: Series, figure: Callable[[Series], float]) -> float:
    """The standard error of a figure."""
    place = np.arange(len(series.delay)) * STRETCHES // len(series.delay)
    values = np.array([figure(series.part(place != out)) for out in range(STRETCHES)])
    return float(np.sqrt((STRETCHES - 1) / STRETCHES * np.sum((values - values.mean()) ** 2)))


@dataclass
class Distance:
    """The difference between two distributions of delays."""

    largest: float  # Kolmogorov-Smirnov distance of the distribution functions
    chance: float  # probability of at least that distance if they are equal
    mean: float  # Wasserstein distance in ms


def distance(one: Series, other: Series, grid: float) -> Distance:
    """Compares delays, rounded to `grid` ms for the test."""
    a, b = (series.delay[~np.isnan(series.delay)] for series in (one, other))
    coarse = np.sort(np.round(a / grid)), np.sort(np.round(b / grid))
    values = np.unique(np.concatenate(coarse))
    below = (np.searchsorted(delays, values, side="right") / len(delays) for delays in coarse)
    largest = float(np.max(np.abs(np.subtract(*below))))
    # Correlated delays carry less information than the same number of independent ones.
    weight = 1 / sum(1 / (len(s.delay) * independent(s)) for s in (one, other))
    chance = float(kstwobign.sf(largest * np.sqrt(weight)))
    return Distance(largest, chance, float(wasserstein_distance(a, b)))


def independent(series: Series) -> float:
    """The number of independent values that one value of the series is worth."""
    correlated = max(series.delay_correlation(), 0.0)
    return (1 - correlated) / (1 + correlated) * float(np.mean(series.copies > 0))
