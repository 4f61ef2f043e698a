//! Probability bounds on the number of losses in loss models with states: Gilbert-Elliott's two
//! states and netem's four.
//!
//! For S losses among n frames and any t > 0, P(S >= k) <= E[e^(tS)] e^(-tk) (Chernoff). E[e^(tS)]
//! is a product of n matrices: the transitions, each row weighted by e^t according to the loss of
//! its state. The bound uses the best t of a series, and the worst distribution of states that the
//! chain passes through from its start.

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
    /// Distributions of states in which an interval may begin.
    starts: Vec<Vector>,
}

/// One t, with the powers of two of its matrix, each scaled by e to its logarithm.
#[derive(Debug, Clone)]
struct Tilted {
    t: f64,
    powers: Vec<(Matrix, f64)>,
}

impl ChainBound {
    /// The bound of the Gilbert-Elliott model. It begins in the good state and draws the loss
    /// before the state changes.
    pub fn gilbert_elliott(model: &GilbertElliott) -> Self {
        let (p, r) = (model.p.fraction(), model.r.fraction());
        let mut moves = identity();
        (moves[0][0], moves[0][1]) = (1.0 - p, p);
        (moves[1][0], moves[1][1]) = (r, 1.0 - r);
        let losses = [model.loss_good.fraction(), model.loss_bad.fraction(), 0.0, 0.0];
        Self::new(&moves, &losses, [1.0, 0.0, 0.0, 0.0])
    }

    /// The bound of netem's four-state model. It begins in the first state and changes state before
    /// it draws the loss, so the first frame is already one step on.
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
        Self::new(&moves, &[0.0, 0.0, 1.0, 1.0], moves[0])
    }

    fn new(moves: &Matrix, losses: &Vector, start: Vector) -> Self {
        let mut starts = vec![start];
        let mut power = *moves;
        for _ in 0..POWERS {
            // After 1, 2, 4, ... frames: the distribution converges, so these are close to all that
            // occur.
            starts.push(row_times(&start, &power));
            power = product(&power, &power);
        }
        let steps = ((GREATEST / SMALLEST).ln() / STEP.ln()).ceil() as i32;
        let tilted = |sign: f64| {
            let of = |i: i32| Tilted::new(moves, losses, sign * SMALLEST * STEP.powi(i));
            (0..=steps).map(of).collect()
        };
        Self { many: tilted(1.0), few: tilted(-1.0), starts }
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
        let exponents = side.iter().map(|tilted| {
            let (ends, log) = tilted.ends(of);
            let mean = |start: &Vector| start.iter().zip(&ends).map(|(a, b)| a * b).sum::<f64>();
            // An interval may begin in any of these distributions; the worst bounds them all.
            let worst = self.starts.iter().map(mean).fold(0.0, f64::max);
            worst.ln() + log - tilted.t * lost as f64
        });
        // A probability is at most 1, whose logarithm is 0.
        exponents.fold(0.0, f64::min).exp()
    }
}

impl Tilted {
    fn new(moves: &Matrix, losses: &Vector, t: f64) -> Self {
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
        Self { t, powers }
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

fn identity() -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(i == j)))
}

fn product(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| row_times(&a[i], b))
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
    use units::{Draw, Purpose, Ratio};

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

    /// The fraction of sequences for whose number of losses `is_so` is true.
    fn simulated(frames: u64, sequences: u64, is_so: impl Fn(u64) -> bool) -> f64 {
        let model = bursts();
        let lost = |sequence: u64| {
            let draw = Draw::new(sequence, 0, 0);
            let mut bad = false;
            let mut step = |index| {
                let lost = bad;
                let leave = if bad { model.r } else { model.p };
                bad ^= draw.uniform(Purpose::State, index) < leave.fraction();
                u64::from(lost)
            };
            (0..frames).map(&mut step).sum::<u64>()
        };
        (0..sequences).filter(|s| is_so(lost(*s))).count() as f64 / sequences as f64
    }

    #[test]
    fn a_bound_is_never_below_what_happens() {
        let bound = ChainBound::gilbert_elliott(&bursts());
        for (frames, lost) in [(1, 1), (20, 8), (100, 25), (400, 60)] {
            let happens = simulated(frames, 20_000, |found| found >= lost);
            assert!(bound.at_least(lost, frames) >= happens, "{frames} {lost} {happens}");
        }
        let happens = simulated(400, 20_000, |found| found <= 8);
        assert!(bound.at_most(8, 400) >= happens && happens > 0.0);
        // The bound is also tight enough to detect that all 60 were lost.
        assert!(bound.at_least(60, 60) < 1e-6, "{}", bound.at_least(60, 60));
        assert!(bound.at_most(300, 10_000) < 1e-6, "{}", bound.at_most(300, 10_000));
    }

    #[test]
    fn four_states_begin_without_a_loss() {
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
        assert!(bound.at_most(0, 5) > 0.9, "five frames without a loss are no wonder");
    }
}
