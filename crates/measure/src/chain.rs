//! Probability bounds on the number of losses in loss models with states: Gilbert-Elliott's two
//! states and netem's four.
//!
//! For S losses among n frames and any t > 0, P(S >= k) <= E[e^(tS)] e^(-tk) (Chernoff). E[e^(tS)]
//! is a product of n matrices: the transitions, each row weighted by e^t according to the loss of
//! its state. The bound uses the best t of a series.
//!
//! Each flow has a state, and begins in the long-term distribution (decision 45). So the frames of
//! an interval begin in that distribution too, and E[e^(tS)] of several flows is the product of
//! theirs. An interval does not say how its frames are divided into flows: the bound uses the worst
//! of one flow and of flows of 1, 2, 4, ... frames. If losses come in bursts, one flow is the worst;
//! if a loss makes the next one less likely, many short flows are.

use link::{GilbertElliott, Markov};

/// Maximum number of states of both models.
const STATES: usize = 4;
type Vector = [f64; STATES];
type Matrix = [Vector; STATES];

/// Largest exponent of the powers of two: more frames than a run can have.
const POWERS: usize = 40;
/// Ratio between successive values of t: close enough to the best, since the bound is flat there.
const STEP: f64 = 1.2;
const SMALLEST: f64 = 1e-4;
const GREATEST: f64 = 30.0;

/// The bound for one loss model.
#[derive(Debug, Clone)]
pub(crate) struct ChainBound {
    /// Positive t for too many losses, negative t for too few.
    many: Vec<Tilted>,
    few: Vec<Tilted>,
}

/// One t, with the powers of two of its matrix, each scaled by e to its logarithm.
#[derive(Debug, Clone)]
struct Tilted {
    t: f64,
    /// Distribution of states at a flow's first frame.
    start: Vector,
    powers: Vec<(Matrix, f64)>,
    /// Logarithm of E[e^(tS)] for each frame, in flows of 1, 2, 4, ... frames.
    rates: Vec<f64>,
}

impl ChainBound {
    /// The bound of the Gilbert-Elliott model. It draws the loss before the state changes.
    pub fn gilbert_elliott(model: &GilbertElliott) -> Self {
        let (p, r) = (model.p.fraction(), model.r.fraction());
        let mut moves = identity();
        (moves[0][0], moves[0][1]) = (1.0 - p, p);
        (moves[1][0], moves[1][1]) = (r, 1.0 - r);
        let losses = [model.loss_good.fraction(), model.loss_bad.fraction(), 0.0, 0.0];
        let bad = model.bad();
        Self::new(&moves, &losses, [1.0 - bad, bad, 0.0, 0.0])
    }

    /// The bound of netem's four-state model. It changes state before it draws the loss, so the
    /// first frame is already one step on.
    pub fn markov(model: &Markov) -> Self {
        let [p13, p31, p32, p23, p14] =
            [model.p13, model.p31, model.p32, model.p23, model.p14].map(|p| p.fraction());
        // Transition probabilities of a state may add up to more than 1: then the draw never
        // reaches the rest.
        let out13 = p13.min(1.0 - p14);
        let out31 = p31.min(1.0 - p32);
        let moves = [
            [1.0 - p14 - out13, 0.0, out13, p14],
            [0.0, 1.0 - p23, p23, 0.0],
            [out31, p32, 1.0 - p32 - out31, 0.0],
            [1.0, 0.0, 0.0, 0.0],
        ];
        Self::new(&moves, &[0.0, 0.0, 1.0, 1.0], row_times(&model.stationary(), &moves))
    }

    fn new(moves: &Matrix, losses: &Vector, start: Vector) -> Self {
        let moves = &reachable(moves, &start);
        let steps = ((GREATEST / SMALLEST).ln() / STEP.ln()).ceil() as i32;
        let tilted = |sign: f64| {
            let of = |i: i32| Tilted::new(moves, losses, start, sign * SMALLEST * STEP.powi(i));
            (0..=steps).map(of).collect()
        };
        Self { many: tilted(1.0), few: tilted(-1.0) }
    }

    /// A bound on the probability of `lost` losses or more among `of` frames.
    pub fn at_least(&self, lost: u64, of: u64) -> f64 {
        self.bound(&self.many, lost, of)
    }

    /// A bound on the probability of `lost` losses or fewer among `of` frames.
    pub fn at_most(&self, lost: u64, of: u64) -> f64 {
        self.bound(&self.few, lost, of)
    }

    fn bound(&self, side: &[Tilted], lost: u64, of: u64) -> f64 {
        let exponents = side.iter().map(|tilted| tilted.log_mean(of) - tilted.t * lost as f64);
        // A probability is at most 1, whose logarithm is 0.
        exponents.fold(0.0, f64::min).exp()
    }
}

impl Tilted {
    fn new(moves: &Matrix, losses: &Vector, start: Vector, t: f64) -> Self {
        let mut matrix = *moves;
        for (row, loss) in matrix.iter_mut().zip(losses) {
            let weight = 1.0 - loss + loss * t.exp();
            row.iter_mut().for_each(|value| *value *= weight);
        }
        let mut powers = vec![scaled(matrix, 0.0)];
        for _ in 1..POWERS {
            let (last, log) = powers[powers.len() - 1];
            powers.push(scaled(product(&last, &last), 2.0 * log));
        }
        let rate = |(bit, (power, log)): (i32, &(Matrix, f64))| {
            let ends = power.map(|row| row.iter().sum());
            (dot(&start, &ends).ln() + log) / 2_f64.powi(bit)
        };
        let rates = (0..).zip(&powers).map(rate).collect();
        Self { t, start, powers, rates }
    }

    /// Logarithm of E[e^(tS)] of `frames` frames, in one flow or in several.
    fn log_mean(&self, frames: u64) -> f64 {
        let (ends, log) = self.ends(frames);
        let one = dot(&self.start, &ends).ln() + log;
        // Flows of more frames than there are cannot be.
        let several =
            self.rates.iter().take(frames.checked_ilog2().map_or(0, |bit| bit as usize + 1));
        several.map(|rate| rate * frames as f64).fold(one, f64::max)
    }

    /// E[e^(tS)] of `frames` frames by the initial state, scaled by e to the second value.
    fn ends(&self, frames: u64) -> (Vector, f64) {
        let (mut ends, mut log) = ([1.0; STATES], 0.0);
        for (bit, (power, scale)) in self.powers.iter().enumerate() {
            if frames >> bit & 1 == 1 {
                ends = std::array::from_fn(|i| (0..STATES).map(|j| power[i][j] * ends[j]).sum());
                log += scale;
                let most = ends.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
                // Without scaling, e^(tS) of millions of frames exceeds the range of a double.
                ends.iter_mut().for_each(|value| *value /= most);
                log += most.ln();
            }
        }
        (ends, log)
    }
}

/// The transitions of states that can follow those of `start`; none of others. A state with more
/// losses that is never entered would leave nothing of the others when a power is scaled.
fn reachable(moves: &Matrix, start: &Vector) -> Matrix {
    let mut is_reached = start.map(|share| share > 0.0);
    // Each pass adds a state, or none is left.
    for _ in 0..STATES {
        let next = |to| (0..STATES).any(|from| is_reached[from] && moves[from][to] > 0.0);
        is_reached = std::array::from_fn(|to| is_reached[to] || next(to));
    }
    std::array::from_fn(|from| if is_reached[from] { moves[from] } else { [0.0; STATES] })
}

fn identity() -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(i == j)))
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| row_times(&a[i], b))
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn row_times(row: &Vector, matrix: &Matrix) -> Vector {
    std::array::from_fn(|j| (0..STATES).map(|i| row[i] * matrix[i][j]).sum())
}

/// The matrix divided by its greatest value, and the logarithm of the total divisor.
fn scaled(matrix: Matrix, log: f64) -> (Matrix, f64) {
    let most = matrix.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    (matrix.map(|row| row.map(|value| value / most)), log + most.ln())
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Ratio;

    fn share(percent: f64) -> Ratio {
        Ratio::from_fraction(percent / 100.0).unwrap()
    }

    fn bursts() -> GilbertElliott {
        GilbertElliott {
            p: share(2.0),
            r: share(25.0),
            loss_bad: share(100.0),
            loss_good: share(0.0),
        }
    }

    #[test]
    fn one_state_is_chernoffs_bound_on_the_binomial() {
        let same = GilbertElliott {
            p: share(0.0),
            r: share(0.0),
            loss_bad: share(30.0),
            loss_good: share(30.0),
        };
        let bound = ChainBound::gilbert_elliott(&same);
        // e^(-n D(0.36 || 0.30)) of 10,000: D = 0.36 ln 1.2 + 0.64 ln(0.64/0.7).
        let exact = -1e4 * (0.36 * 1.2f64.ln() + 0.64 * (0.64f64 / 0.7).ln());
        let found = bound.at_least(3_600, 10_000).ln();
        assert!(found >= exact && found < 0.98 * exact, "{found} {exact}");
        assert_eq!(bound.at_least(3_000, 10_000), 1.0);
        assert!(bound.at_most(2_400, 10_000) < 1e-30);
        assert!(bound.at_least(3_600, 10_000_000) >= 0.999);
    }

    /// The exact probability of 0, 1, ... losses, in flows of these numbers of frames. Computed state
    /// by state, without moment generating functions.
    fn exact(moves: &[[f64; 4]; 4], losses: [f64; 4], first: [f64; 4], flows: &[u64]) -> Vec<f64> {
        let mut all = vec![1.0];
        for frames in flows {
            // By state and number of losses.
            let mut paths: Vec<[f64; 4]> = vec![first];
            for _ in 0..*frames {
                let mut next = vec![[0.0; 4]; paths.len() + 1];
                for (lost, states) in paths.iter().enumerate() {
                    for (from, share) in states.iter().enumerate() {
                        for (to, step) in moves[from].iter().enumerate() {
                            next[lost][to] += share * (1.0 - losses[from]) * step;
                            next[lost + 1][to] += share * losses[from] * step;
                        }
                    }
                }
                paths = next;
            }
            let of_flow: Vec<f64> = paths.iter().map(|states| states.iter().sum()).collect();
            let mut sum = vec![0.0; all.len() + of_flow.len() - 1];
            for (a, p) in all.iter().enumerate() {
                for (b, q) in of_flow.iter().enumerate() {
                    sum[a + b] += p * q;
                }
            }
            all = sum;
        }
        all
    }

    fn never_below(name: &str, bound: &ChainBound, exact: impl Fn(&[u64]) -> Vec<f64>) {
        let flows: [&[u64]; 8] = [
            &[1],
            &[24],
            &[1; 24],
            &[2; 12],
            &[3; 8],
            &[5, 5, 5, 5, 4],
            &[12, 12],
            &[1, 2, 4, 8, 9],
        ];
        for flows in flows {
            let frames: u64 = flows.iter().sum();
            let probabilities = exact(flows);
            for lost in 0..=frames {
                let (few, many) = probabilities.split_at(lost as usize);
                let at_least: f64 = many.iter().sum();
                let at_most = few.iter().sum::<f64>() + many[0];
                let (over, under) = (bound.at_least(lost, frames), bound.at_most(lost, frames));
                let place = format!("{name}: {lost} of {frames} in {flows:?}");
                // Sums of rounded products may exceed 1 by little.
                assert!(over >= at_least * (1.0 - 1e-9), "{place}: {over} {at_least}");
                assert!(under >= at_most * (1.0 - 1e-9), "{place}: {under} {at_most}");
            }
        }
    }

    #[test]
    fn a_bound_is_never_below_the_exact_probability_however_frames_are_divided_into_flows() {
        for (p, r, bad, good) in [
            (2.0, 25.0, 100.0, 0.0),
            (2.0, 25.0, 60.0, 1.0),
            // A loss makes the next one less likely.
            (100.0, 100.0, 100.0, 0.0),
            (80.0, 90.0, 90.0, 5.0),
            (0.1, 0.3, 100.0, 0.0),
            (0.0, 0.0, 100.0, 30.0),
            (10.0, 0.0, 50.0, 0.0),
            (50.0, 50.0, 0.0, 100.0),
        ] {
            let model = GilbertElliott {
                p: share(p),
                r: share(r),
                loss_bad: share(bad),
                loss_good: share(good),
            };
            let (p, r) = (p / 100.0, r / 100.0);
            let none = [0.0; 4];
            let moves = [[1.0 - p, p, 0.0, 0.0], [r, 1.0 - r, 0.0, 0.0], none, none];
            let bad_state = if p + r == 0.0 { 0.0 } else { p / (p + r) };
            let first = [1.0 - bad_state, bad_state, 0.0, 0.0];
            let losses = [good / 100.0, bad / 100.0, 0.0, 0.0];
            let bound = ChainBound::gilbert_elliott(&model);
            never_below(&format!("{model:?}"), &bound, |flows| exact(&moves, losses, first, flows));
        }
    }

    #[test]
    fn four_states_are_never_below_the_exact_probability_either() {
        for [p13, p31, p32, p23, p14] in [
            [1.0, 20.0, 30.0, 40.0, 0.5],
            [90.0, 95.0, 0.0, 100.0, 10.0],
            [0.0, 100.0, 0.0, 100.0, 100.0],
            [20.0, 0.0, 50.0, 10.0, 0.0],
        ] {
            let model = Markov {
                p13: share(p13),
                p31: share(p31),
                p32: share(p32),
                p23: share(p23),
                p14: share(p14),
            };
            let [p13, p31, p32, p23, p14] = [p13, p31, p32, p23, p14].map(|p| p / 100.0);
            let moves = [
                [1.0 - p13 - p14, 0.0, p13, p14],
                [0.0, 1.0 - p23, p23, 0.0],
                [p31, p32, 1.0 - p31 - p32, 0.0],
                [1.0, 0.0, 0.0, 0.0],
            ];
            // From two initial distributions to the mean of both, which removes a period of two.
            let mut first = [0.25; 4];
            for _ in 0..100_000 {
                let next = row_times(&first, &moves);
                first = std::array::from_fn(|i| f64::midpoint(first[i], next[i]));
            }
            let bound = ChainBound::markov(&model);
            never_below(&format!("{model:?}"), &bound, |flows| {
                exact(&moves, [0.0, 0.0, 1.0, 1.0], first, flows)
            });
        }
    }

    #[test]
    fn a_state_that_is_never_entered_does_not_count() {
        for (p, r, loss_good, loss_bad) in [(0.0, 0.0, 30.0, 100.0), (5.0, 0.0, 100.0, 30.0)] {
            let model = GilbertElliott {
                p: share(p),
                r: share(r),
                loss_bad: share(loss_bad),
                loss_good: share(loss_good),
            };
            let bound = ChainBound::gilbert_elliott(&model);
            // A standard deviation is 1,449 frames.
            for lost in [2_998_000, 3_000_000, 3_002_000] {
                let found = [bound.at_least(lost, 10_000_000), bound.at_most(lost, 10_000_000)];
                assert!(found.iter().all(|bound| *bound > 0.1), "{lost} of {model:?}: {found:?}");
            }
            assert!(bound.at_least(3_030_000, 10_000_000) < 1e-6);
            assert!(bound.at_most(2_970_000, 10_000_000) < 1e-6);
        }
    }

    #[test]
    fn a_bound_detects_what_cannot_be_chance() {
        let bound = ChainBound::gilbert_elliott(&bursts());
        assert!(bound.at_least(60, 60) < 1e-6, "{}", bound.at_least(60, 60));
        assert!(bound.at_most(300, 10_000) < 1e-6, "{}", bound.at_most(300, 10_000));
        // Two in three frames are lost, in bursts of 50: that a flow loses none of its first five
        // needs the good state, in which a third of them begin.
        let mostly_bad = GilbertElliott { p: share(4.0), r: share(2.0), ..bursts() };
        let bound = ChainBound::gilbert_elliott(&mostly_bad).at_most(0, 5);
        assert!((0.25..0.35).contains(&bound), "{bound}");
    }

    #[test]
    fn many_short_flows_may_lose_as_independent_frames_do() {
        // Each second frame of a flow is lost; of many flows of one frame, a random half.
        let model = GilbertElliott { p: share(100.0), r: share(100.0), ..bursts() };
        let bound = ChainBound::gilbert_elliott(&model);
        // 540 of 1,000 are 2.5 standard deviations: P(X >= 540) = 0.0062.
        assert!(bound.at_least(540, 1_000) >= 0.0062, "{}", bound.at_least(540, 1_000));
        assert!(bound.at_least(600, 1_000) < 1e-8);
    }

    #[test]
    fn four_states_have_their_long_term_loss() {
        let model = Markov {
            p13: share(1.0),
            p31: share(20.0),
            p32: share(30.0),
            p23: share(40.0),
            p14: share(0.5),
        };
        let bound = ChainBound::markov(&model);
        let expected = (model.mean() * 1e6) as u64;
        assert_eq!(bound.at_least(expected, 1_000_000), 1.0);
        assert!(bound.at_least(expected * 11 / 10, 1_000_000) < 1e-6);
        assert!(bound.at_most(expected * 9 / 10, 1_000_000) < 1e-6);
        assert!(bound.at_most(0, 5) > 0.8, "five frames without a loss are no wonder");
    }
}
