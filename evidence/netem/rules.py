"""Expected figures by the rules of netem (Linux 6.1) and of the medium.

Computed from the rules, independently of both programs.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import norm

Floats = NDArray[np.float64]
Rule = tuple[float, float]

DRAWS = 1_000_000
RANDOM = np.random.default_rng(1)


def smoothed(of_new: float, of_last: float, draws: Floats) -> Floats:
    """A share of each draw plus a share of the previous result."""
    return np.asarray(lfilter([of_new], [1, -of_last], draws), dtype=np.float64)


def netem_draws(correlation: float) -> Floats:
    """Netem's draws: a weighted mean of the new draw and the last result, whose weight is
    the correlation.
    """
    return smoothed(1 - correlation, correlation, RANDOM.random(DRAWS))


def medium_draws(correlation: float) -> Floats:
    """The medium's draws: normal numbers with that rank correlation, made uniform."""
    of_normal = 2 * np.sin(np.pi / 6 * correlation)
    fresh = RANDOM.standard_normal(DRAWS) * np.sqrt(1 - of_normal**2)
    return np.asarray(norm.cdf(smoothed(1, of_normal, fresh)), dtype=np.float64)


def each(correlation: float, figure: Callable[[Floats], float]) -> Rule:
    """A figure of the draws of both."""
    return (figure(netem_draws(correlation)), figure(medium_draws(correlation)))


def below(share: float, correlation: float) -> Rule:
    """Share of draws below `share`, in %."""
    return each(correlation, lambda draws: 100 * float(np.mean(draws < share)))


def runs_below(share: float, correlation: float) -> Rule:
    """Mean number of consecutive draws below `share`."""
    return each(
        correlation,
        lambda draws: float(1 / np.mean(~(draws[1:] < share)[draws[:-1] < share])),
    )


def overtaking(share: float, correlation: float, gap: int) -> Rule:
    """Share that overtakes, in %.

    Netem draws only after the gap, the medium for every frame.
    """

    def of(draws: Floats, always: bool) -> float:
        delayed, place, overtaken, frames = 0, 0, 0, DRAWS // 2
        for frame in range(frames):
            open_ = delayed >= gap - 1
            if open_ and draws[frame if always else place] < share:
                overtaken, delayed = overtaken + 1, 0
            else:
                delayed += 1
            place += open_
        return 100 * overtaken / frames

    return (of(netem_draws(correlation), False), of(medium_draws(correlation), True))


def gilbert_elliott(p: float, r: float, bad: float, good: float) -> Rule:
    """Share lost, in %."""
    loss = 100 * (p * bad + r * good) / (p + r)
    return (loss, loss)


def four_states(p13: float, p31: float, p32: float, p23: float, p14: float) -> Rule:
    """Share lost, in %, from the chain's stationary distribution."""
    moves = np.array(
        [
            [1 - p13 - p14, 0, p13, p14],
            [0, 1 - p23, p23, 0],
            [p31, p32, 1 - p31 - p32, 0],
            [1, 0, 0, 0],
        ]
    )
    states = np.linalg.matrix_power(moves, 10_000)[0]
    loss = 100 * float(states[2] + states[3])
    return (loss, loss)


def wrapped(delay: float, jitter: float) -> Floats:
    """Netem's uniform delays in ms: 32 bits modulo twice the jitter in ns. Smaller
    remainders are more likely if twice the jitter is a large part of 2^32.
    """
    remainder = (RANDOM.random(DRAWS) * 2**32) % (2e6 * jitter)
    return delay - jitter + remainder / 1e6


def scaled(factor: float, rule: Rule) -> Rule:
    """Both, times a factor."""
    return (factor * rule[0], factor * rule[1])


def same(value: float) -> Rule:
    """One value for both."""
    return (value, value)


RATE = 1000.0  # kbit/s
FRAME = 1042  # bytes
PAYLOAD = 1000 / FRAME
TOGETHER = 10


def groups(wire: int, delay: float = 0) -> Rule:
    """Mean delay in ms of ten frames at once that take `wire` bytes each."""
    return same(delay + 8 * wire / RATE * (TOGETHER + 1) / 2)


def rate_with_jitter(delay: float, jitter: float) -> Rule:
    """Mean delay in ms of ten frames at once every 200 ms.

    Netem subtracts the remaining time of the last frame in its queue from a frame's
    delay, and queues it behind that frame: order is kept, and delays add up. The
    medium delays each frame independently after its serialisation.
    """
    sent, delays, last = 8 * FRAME / RATE, [], 0.0
    for frame in range(DRAWS // 10):
        now = 200.0 * (frame // TOGETHER)
        drawn = delay + jitter * (2 * RANDOM.random() - 1)
        begin = now
        if last > now:
            drawn, begin = max(0, drawn - (last - now)), last
        last = begin + drawn + sent
        delays.append(last - now)
    return (float(np.mean(delays)), groups(FRAME, delay)[1])


def slots_of_packets(shortest: float, longest: float, packets: int, every: float) -> Rule:
    """Mean delay in ms of frames that arrive every `every` ms.

    Netem opens the next slot as soon as one has released its last packet, the medium
    when the next frame arrives.
    """

    def of(ahead: bool) -> float:
        delays: list[float] = []
        slot, left = -1.0, packets
        for frame in range(DRAWS // 10):
            now = every * frame
            # When the slot after the previous, full one opens.
            opened = slot + RANDOM.uniform(shortest, longest) if left == 0 else -1.0
            if left == 0 and (slot >= now or (ahead and opened >= now)):
                slot, left = opened, packets
            elif slot < now:
                slot, left = now + RANDOM.uniform(shortest, longest), packets
            left -= 1
            delays.append(slot - now)
        return float(np.mean(delays))

    return (of(True), of(False))


def bucket(burst: int, together: int) -> Rule:
    """Mean delay in ms of frames at once where `burst` bytes pass at once."""
    beyond = FRAME * np.arange(1, together + 1) - burst
    return same(float(np.mean(8 * np.maximum(beyond, 0) / RATE)))


# Case, figure, and its expected values.
RULES: dict[tuple[str, str], Callable[[], Rule]] = {
    ("uniform", "mean"): lambda: same(100.0),
    ("uniform", "deviation"): lambda: same(50 / np.sqrt(3)),
    ("uniform-long", "mean"): lambda: (float(np.mean(wrapped(1000, 500))), 1000.0),
    ("uniform-long", "deviation"): lambda: (
        float(np.std(wrapped(1000, 500))),
        500 / np.sqrt(3),
    ),
    ("longest-correlated", "deviation"): lambda: (
        2147 * float(np.std(2 * netem_draws(0.75) - 1)),
        2147 / np.sqrt(3),
    ),
    ("uniform-correlated", "delay_correlation"): lambda: (0.0, 0.75),
    ("normal-correlated", "delay_correlation"): lambda: (
        0.0,
        2 * np.sin(np.pi / 6 * 0.75),
    ),
    ("longest-correlated", "delay_correlation"): lambda: same(0.75),
    ("loss-10", "lost"): lambda: same(10.0),
    ("loss-30", "lost"): lambda: same(30.0),
    ("loss-10-correlated", "lost"): lambda: below(0.1, 0.25),
    ("loss-30-correlated", "lost"): lambda: below(0.3, 0.5),
    ("loss-10", "loss_run"): lambda: same(1 / 0.9),
    ("loss-30", "loss_run"): lambda: same(1 / 0.7),
    ("loss-10-correlated", "loss_run"): lambda: runs_below(0.1, 0.25),
    ("loss-30-correlated", "loss_run"): lambda: runs_below(0.3, 0.5),
    ("gilbert", "lost"): lambda: gilbert_elliott(0.05, 0.25, 1, 0),
    ("gilbert", "loss_run"): lambda: same(4.0),
    ("gilbert-elliott", "lost"): lambda: gilbert_elliott(0.05, 0.25, 0.8, 0.01),
    ("four-states", "lost"): lambda: four_states(0.05, 0.3, 0.2, 0.4, 0.01),
    ("duplicate", "duplicated"): lambda: same(10.0),
    # iproute2 sends this correlation only together with that of another impairment.
    ("duplicate-correlated", "duplicated"): lambda: same(10.0),
    ("duplicate-correlated", "duplicated_run"): lambda: (
        1 / 0.9,
        runs_below(0.1, 0.5)[1],
    ),
    ("duplicate-correlated-sent", "duplicated"): lambda: below(0.1, 0.5),
    ("duplicate-correlated-sent", "duplicated_run"): lambda: runs_below(0.1, 0.5),
    # Netem subtracts a loss from the count of two, and draws again only for a copy.
    ("duplicate-loss", "lost"): lambda: (70 * 0.3, 70 * 0.3 + 30 * 0.3**2),
    ("duplicate-loss", "duplicated"): lambda: same(30 * 0.7**2),
    # Bits flipped in the headers are not seen: 42 bytes of 1,042.
    ("corrupt", "corrupted_share"): lambda: same(20 * PAYLOAD),
    ("corrupt-correlated", "corrupted_share"): lambda: scaled(PAYLOAD, below(0.2, 0.5)),
    ("reorder", "overtaking"): lambda: overtaking(0.25, 0, 1),
    ("reorder-gap", "overtaking"): lambda: overtaking(0.25, 0, 5),
    ("reorder-gap-correlated", "overtaking"): lambda: overtaking(0.25, 0.5, 5),
    ("rate-overload", "throughput"): lambda: same(RATE),
    ("rate-loss", "throughput"): lambda: (RATE, 0.6 * RATE),
    ("rate-groups", "mean"): lambda: groups(FRAME),
    ("rate-overhead", "mean"): lambda: groups(FRAME + 100),
    ("rate-less", "mean"): lambda: groups(FRAME - 14),
    # 22 cells of 48 B hold a frame and 8 B more.
    ("rate-cells", "mean"): lambda: groups(22 * 53),
    ("rate-delay", "mean"): lambda: groups(FRAME, 500),
    ("rate-jitter", "mean"): lambda: rate_with_jitter(100, 40),
    # The rate takes 120 frames per second of 250, and 120 of the 150 left after loss.
    ("rate-overload", "lost"): lambda: same(100 * (1 - 120 / 250)),
    ("rate-loss", "lost"): lambda: (100 * (1 - 120 / 250), 100 * (1 - 72 / 250)),
    ("slot-packets", "mean"): lambda: slots_of_packets(20, 40, 10, 4),
    # Netem takes 20, and the next when the first has left, 51 frames later.
    ("rate-limit", "lost"): lambda: (100 * (1 - 20 / 51), 0.0),
    ("bucket", "mean"): lambda: bucket(10_000, 20),
}


def rule(case: str, figure: str) -> Rule | None:
    """The expected figure of a case for netem and the medium; none without a rule."""
    found = RULES.get((case, figure))
    return found and found()
