"""What the rules of netem (Linux 6.1) and of the medium say.

Worked out from the rules, apart from both programs.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.stats import norm

Floats = NDArray[np.float64]
Rule = tuple[float, float]

DRAWS = 1_000_000
SOURCE = np.random.default_rng(1)


def smoothed(of_new: float, of_last: float, draws: Floats) -> Floats:
    """A share of each draw and a share of the result before it."""
    return np.asarray(lfilter([of_new], [1, -of_last], draws), dtype=np.float64)


def netem_draws(correlation: float) -> Floats:
    """Netem's: a mean of the fresh draw and the last result, of which that counts
    for the correlation.
    """
    return smoothed(1 - correlation, correlation, SOURCE.random(DRAWS))


def medium_draws(correlation: float) -> Floats:
    """The medium's: normal numbers of that rank correlation, made uniform again."""
    of_normal = 2 * np.sin(np.pi / 6 * correlation)
    fresh = SOURCE.standard_normal(DRAWS) * np.sqrt(1 - of_normal**2)
    return np.asarray(norm.cdf(smoothed(1, of_normal, fresh)), dtype=np.float64)


def each(correlation: float, figure: Callable[[Floats], float]) -> Rule:
    """A figure of the draws of both."""
    return (figure(netem_draws(correlation)), figure(medium_draws(correlation)))


def below(share: float, correlation: float) -> Rule:
    """Share of draws below `share`, in %."""
    return each(correlation, lambda draws: 100 * float(np.mean(draws < share)))


def runs_below(share: float, correlation: float) -> Rule:
    """Mean number in a row of draws below `share`."""
    return each(
        correlation,
        lambda draws: float(1 / np.mean(~(draws[1:] < share)[draws[:-1] < share])),
    )


def overtaking(share: float, correlation: float, gap: int) -> Rule:
    """Share that overtakes, in %.

    Netem draws only when the gap is over, the medium for every frame.
    """

    def of(draws: Floats, always: bool) -> float:
        delayed, place, overtook, frames = 0, 0, 0, DRAWS // 2
        for frame in range(frames):
            open_ = delayed >= gap - 1
            if open_ and draws[frame if always else place] < share:
                overtook, delayed = overtook + 1, 0
            else:
                delayed += 1
            place += open_
        return 100 * overtook / frames

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
    """Netem's uniform delays in ms: 32 bits modulo twice the jitter in ns, of which
    the smaller remainders are likelier when that is no small part of 2^32.
    """
    remainder = (SOURCE.random(DRAWS) * 2**32) % (2e6 * jitter)
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

    Netem takes off a frame's delay what the last one in its queue still has before
    it, and puts it behind that one: order is kept, and delays add up. The medium
    delays each frame by itself when it has been sent.
    """
    sent, delays, last = 8 * FRAME / RATE, [], 0.0
    for frame in range(DRAWS // 10):
        now = 200.0 * (frame // TOGETHER)
        drawn = delay + jitter * (2 * SOURCE.random() - 1)
        begin = now
        if last > now:
            drawn, begin = max(0, drawn - (last - now)), last
        last = begin + drawn + sent
        delays.append(last - now)
    return (float(np.mean(delays)), groups(FRAME, delay)[1])


def slots_of_packets(shortest: float, longest: float, packets: int, every: float) -> Rule:
    """Mean delay in ms of frames that come `every` ms.

    Netem opens the next slot as soon as one has let its last packet go, the medium
    when the next frame comes.
    """

    def of(ahead: bool) -> float:
        delays: list[float] = []
        slot, left = -1.0, packets
        for frame in range(DRAWS // 10):
            now = every * frame
            # Whether the slot before, which is full, has the next one open by now.
            opened = slot + SOURCE.uniform(shortest, longest) if left == 0 else -1.0
            if left == 0 and (slot >= now or (ahead and opened >= now)):
                slot, left = opened, packets
            elif slot < now:
                slot, left = now + SOURCE.uniform(shortest, longest), packets
            left -= 1
            delays.append(slot - now)
        return float(np.mean(delays))

    return (of(True), of(False))


def bucket(burst: int, together: int) -> Rule:
    """The same where `burst` bytes pass at once."""
    beyond = FRAME * np.arange(1, together + 1) - burst
    return same(float(np.mean(8 * np.maximum(beyond, 0) / RATE)))


# Names of cases, figures, and what the rules say of them.
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
    ("loss-10", "run"): lambda: same(1 / 0.9),
    ("loss-30", "run"): lambda: same(1 / 0.7),
    ("loss-10-correlated", "run"): lambda: runs_below(0.1, 0.25),
    ("loss-30-correlated", "run"): lambda: runs_below(0.3, 0.5),
    ("gilbert", "lost"): lambda: gilbert_elliott(0.05, 0.25, 1, 0),
    ("gilbert", "run"): lambda: same(4.0),
    ("gilbert-elliott", "lost"): lambda: gilbert_elliott(0.05, 0.25, 0.8, 0.01),
    ("four-states", "lost"): lambda: four_states(0.05, 0.3, 0.2, 0.4, 0.01),
    ("duplicate", "again"): lambda: same(10.0),
    # iproute2 sends this correlation only beside another impairment's.
    ("duplicate-correlated", "again"): lambda: same(10.0),
    ("duplicate-correlated", "again_run"): lambda: (
        1 / 0.9,
        runs_below(0.1, 0.5)[1],
    ),
    ("duplicate-correlated-sent", "again"): lambda: below(0.1, 0.5),
    ("duplicate-correlated-sent", "again_run"): lambda: runs_below(0.1, 0.5),
    # Netem takes a loss off the count of two, and draws again for a copy alone.
    ("duplicate-loss", "lost"): lambda: (70 * 0.3, 70 * 0.3 + 30 * 0.3**2),
    ("duplicate-loss", "again"): lambda: same(30 * 0.7**2),
    # What is turned over in the headers is not seen: 42 bytes of 1,042.
    ("corrupt", "corrupt"): lambda: same(20 * PAYLOAD),
    ("corrupt-correlated", "corrupt"): lambda: scaled(PAYLOAD, below(0.2, 0.5)),
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
    # Of 250 frames a second the rate takes 120, of 150 that are left too.
    ("rate-overload", "lost"): lambda: same(100 * (1 - 120 / 250)),
    ("rate-loss", "lost"): lambda: (100 * (1 - 120 / 250), 100 * (1 - 72 / 250)),
    ("slot-packets", "mean"): lambda: slots_of_packets(20, 40, 10, 4),
    # Netem takes 20, and the next when the first has left, 51 frames later.
    ("rate-limit", "lost"): lambda: (100 * (1 - 20 / 51), 0.0),
    ("bucket", "mean"): lambda: bucket(10_000, 20),
}


def rule(case: str, figure: str) -> Rule | None:
    """What netem's rule says of the figure of a case, and the medium's."""
    found = RULES.get((case, figure))
    return found and found()
