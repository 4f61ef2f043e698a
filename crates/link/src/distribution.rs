//! Delay distributions, as quantile tables like those of tc-netem.

use serde::{Deserialize, Serialize};
use statrs::function::erf::{erfc, erfc_inv};
use std::f64::consts::SQRT_2;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// Distribution of the delay around its mean.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Uniform between `delay - jitter` and `delay + jitter`.
    #[default]
    Uniform,
    /// Normal with standard deviation `jitter`, truncated at four standard deviations.
    Normal,
    /// Pareto with shape 3, shifted and scaled as in tc-netem: from -2/3 to 4 jitters, mean
    /// -0.033 jitters, standard deviation 0.82.
    Pareto,
    /// A quarter of the normal's and three quarters of the Pareto's quantiles: mean -0.025
    /// jitters, standard deviation 0.83.
    #[serde(rename = "paretonormal")]
    ParetoNormal,
    /// A table from a file in iproute2's format.
    Table(Table),
}

/// Quantiles from a file in iproute2's `.dist` format.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "PathBuf", into = "PathBuf")]
pub struct Table {
    /// Path of the file.
    pub file: PathBuf,
    /// The quantiles in jitters. Not stored with a plan; the file path is.
    quantiles: Arc<[f32]>,
}

/// tc-netem's tables contain 16-bit integers; this value is one jitter.
const SCALE: f32 = 8192.0;
/// The largest value of tc-netem's 16 bits is just under four jitters.
const MOST_JITTERS: f64 = i16::MAX as f64 / SCALE as f64;
/// The smallest value, in jitters: `i16::MIN` / 8192.
const LEAST: f64 = -4.0;
/// Entries of the built-in tables, as in iproute2.
const ENTRIES: usize = 4096;
/// tc-netem's maximum table size.
const MOST: usize = 16_384;

/// Why a table is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// The file is not readable.
    #[error("could not read {}: {why}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// The system's error message.
        why: String,
    },
    /// The file contains something other than a number.
    #[error("{}, line {line}: `{word}` is not a whole number from -32768 to 32767", file.display())]
    NotANumber {
        /// Path of the file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The text there.
        word: String,
    },
    /// Too few or too many numbers.
    #[error("{} has {count} numbers; a table needs 2 to {MOST}", file.display())]
    Size {
        /// Path of the file.
        file: PathBuf,
        /// The number of values.
        count: usize,
    },
}

impl From<PathBuf> for Table {
    /// A table whose file is not read yet.
    fn from(file: PathBuf) -> Self {
        Self { file, quantiles: Arc::default() }
    }
}

impl From<Table> for PathBuf {
    fn from(table: Table) -> Self {
        table.file
    }
}

impl Table {
    /// Reads a file in iproute2's `.dist` format: equally likely numbers, 8192 per jitter;
    /// lines that begin with `#` are comments.
    ///
    /// # Errors
    /// If the file is not readable or contains anything else.
    pub fn read(file: &Path) -> Result<Self, TableError> {
        let text = input::read_to_string(file, input::MAX_DATA).map_err(|error| {
            TableError::Unreadable { file: file.to_owned(), why: error.to_string() }
        })?;
        Self::parse(file, &text)
    }

    /// As [`Self::read`], from text.
    ///
    /// # Errors
    /// If the text is not a table.
    pub fn parse(file: &Path, text: &str) -> Result<Self, TableError> {
        let mut quantiles = Vec::new();
        let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
        for (number, word) in
            lines.flat_map(|(n, line)| line.split_whitespace().map(move |w| (n, w)))
        {
            let value: i16 = word.parse().map_err(|_| TableError::NotANumber {
                file: file.to_owned(),
                line: number + 1,
                word: word.chars().take(20).collect(),
            })?;
            quantiles.push(f32::from(value) / SCALE);
        }
        match quantiles.len() {
            2..=MOST => Ok(Self { file: file.to_owned(), quantiles: quantiles.into() }),
            count => Err(TableError::Size { file: file.to_owned(), count }),
        }
    }
}

impl Distribution {
    /// Deviation of a frame's delay from the mean, in jitters, for `u` uniform in [0, 1).
    pub fn quantile(&self, u: f64) -> f64 {
        match self {
            Self::Uniform => 2.0 * u - 1.0,
            Self::Normal => pick(&NORMAL, u),
            Self::Pareto => pick(&PARETO, u),
            Self::ParetoNormal => pick(&PARETO_NORMAL, u),
            // A plan that was loaded without its tables has an empty one.
            Self::Table(table) if table.quantiles.is_empty() => 0.0,
            Self::Table(table) => pick(&table.quantiles, u),
        }
    }

    /// As [`Self::quantile`], for `z` of a standard normal variable instead of a uniform
    /// one.
    pub(crate) fn quantile_of_normal(&self, z: f64) -> f64 {
        match self {
            // The normal quantile of the normal distribution function is `z` itself.
            Self::Normal => z.clamp(LEAST, MOST_JITTERS),
            // The distribution function is rounded to 1 from about 8 standard deviations on.
            other => other.quantile((0.5 * erfc(-z / SQRT_2)).min(1.0 - f64::EPSILON)),
        }
    }

    /// The minimum of both functions, in jitters.
    pub fn least(&self) -> f64 {
        match self {
            // The table starts higher, but a normal variable does not use the table.
            Self::Normal => LEAST,
            Self::Table(table) if table.quantiles.is_empty() => 0.0,
            // Tables in files may be unsorted.
            Self::Table(table) => table.quantiles.iter().copied().fold(f32::MAX, f32::min).into(),
            shape => shape.quantile(0.0),
        }
    }

    /// The maximum of both functions, in jitters.
    pub fn most(&self) -> f64 {
        match self {
            Self::Normal => MOST_JITTERS,
            Self::Table(table) if table.quantiles.is_empty() => 0.0,
            // Tables in files may be unsorted.
            Self::Table(table) => table.quantiles.iter().copied().fold(f32::MIN, f32::max).into(),
            shape => shape.quantile(1.0 - f64::EPSILON),
        }
    }

    /// Mean in jitters.
    pub fn mean(&self) -> f64 {
        self.moments().0
    }

    /// Standard deviation in jitters.
    pub fn deviation(&self) -> f64 {
        self.moments().1
    }

    fn moments(&self) -> (f64, f64) {
        match self {
            // Uniform distribution between -1 and 1.
            Self::Uniform => (0.0, 1.0 / 3f64.sqrt()),
            Self::Normal => MOMENTS[0],
            Self::Pareto => MOMENTS[1],
            Self::ParetoNormal => MOMENTS[2],
            Self::Table(table) => moments(&table.quantiles),
        }
    }
}

/// Mean and standard deviation of a table of equally likely values.
fn moments(table: &[f32]) -> (f64, f64) {
    let n = table.len().max(1) as f64;
    let mean = table.iter().map(|q| f64::from(*q)).sum::<f64>() / n;
    let square = table.iter().map(|q| (f64::from(*q) - mean).powi(2)).sum::<f64>() / n;
    (mean, square.sqrt())
}

fn pick(table: &[f32], u: f64) -> f64 {
    // `u` is below 1, but the product may be rounded up to the length.
    let place = (u * table.len() as f64) as usize;
    f64::from(table[place.min(table.len() - 1)])
}

fn table(quantile: impl Fn(f64) -> f64) -> Vec<f32> {
    let middle = |place: usize| (place as f64 + 0.5) / ENTRIES as f64;
    (0..ENTRIES).map(|place| quantile(middle(place)).clamp(LEAST, MOST_JITTERS) as f32).collect()
}

/// Quantile function of the normal distribution.
pub(crate) fn normal(u: f64) -> f64 {
    let q = u - 0.5;
    // Both constants are AS 241's: 0.180625 is 0.425 squared.
    match q.abs() <= 0.425 {
        true => q * middle(0.180_625 - q * q),
        false => -SQRT_2 * erfc_inv(2.0 * u),
    }
}

/// The middle 85 % of the normal quantile function, divided by the distance from one half.
/// Avoids the logarithm of the tails: M. J. Wichura, Algorithm AS 241 (PPND16), Applied
/// Statistics 37, 1988, accurate to 16 digits.
fn middle(r: f64) -> f64 {
    const ABOVE: [f64; 8] = [
        2_509.080_928_730_122_7,
        33_430.575_583_588_13,
        67_265.770_927_008_7,
        45_921.953_931_549_87,
        13_731.693_765_509_46,
        1_971.590_950_306_551_3,
        133.141_667_891_784_38,
        3.387_132_872_796_366_5,
    ];
    const BELOW: [f64; 8] = [
        5_226.495_278_852_854,
        28_729.085_735_721_943,
        39_307.895_800_092_71,
        21_213.794_301_586_597,
        5_394.196_021_424_751,
        687.187_007_492_057_9,
        42.313_330_701_600_91,
        1.0,
    ];
    let at = |polynomial: [f64; 8]| polynomial.into_iter().fold(0.0, |sum, term| sum * r + term);
    at(ABOVE) / at(BELOW)
}

/// tc-netem's Pareto distribution: shape 3 and minimum 1, minus its mean of 1.5, times 4/3.
fn pareto(u: f64) -> f64 {
    ((1.0 - u).powf(-1.0 / 3.0) - 1.5) * 4.0 / 3.0
}

static NORMAL: LazyLock<Vec<f32>> = LazyLock::new(|| table(normal));
static PARETO: LazyLock<Vec<f32>> = LazyLock::new(|| table(pareto));
static PARETO_NORMAL: LazyLock<Vec<f32>> = LazyLock::new(|| {
    NORMAL.iter().zip(PARETO.iter()).map(|(normal, pareto)| 0.25 * normal + 0.75 * pareto).collect()
});

/// The moments of these three, read in each interval of each link.
static MOMENTS: LazyLock<[(f64, f64); 3]> =
    LazyLock::new(|| [&NORMAL, &PARETO, &PARETO_NORMAL].map(|table| moments(table)));

#[cfg(test)]
mod tests {
    use super::*;

    fn deciles(of: &Distribution) -> Vec<f64> {
        [0.01, 0.25, 0.5, 0.75, 0.99].map(|u| of.quantile(u)).to_vec()
    }

    fn close(got: &[f64], want: &[f64]) {
        let near = got.iter().zip(want).all(|(a, b)| (a - b).abs() < 0.015);
        assert!(near && got.len() == want.len(), "{got:?} for {want:?}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables_of_iproute2() {
        // Read from normal.dist, pareto.dist and paretonormal.dist of iproute2 6.1.
        close(&deciles(&Distribution::Normal), &[-2.325, -0.674, 0.0, 0.675, 2.327]);
        close(&deciles(&Distribution::Pareto), &[-0.662, -0.533, -0.320, 0.117, 4.0]);
        close(&deciles(&Distribution::ParetoNormal), &[-1.078, -0.568, -0.240, 0.256, 3.582]);
    }

    #[test]
    fn moments_are_those_of_the_tables_of_iproute2() {
        let moments = |of: Distribution| [of.mean(), of.deviation()];
        close(&moments(Distribution::Normal), &[0.0, 1.0]);
        close(&moments(Distribution::Pareto), &[-0.033, 0.820]);
        close(&moments(Distribution::ParetoNormal), &[-0.025, 0.834]);
        close(&moments(Distribution::Uniform), &[0.0, 0.577]);
    }

    #[test]
    fn the_middle_and_the_tails_of_the_normal_are_one_curve() {
        for place in 1..10_000 {
            let u = f64::from(place) / 1e4;
            let slow = -SQRT_2 * erfc_inv(2.0 * u);
            assert!((normal(u) - slow).abs() < 1e-13, "{u}: {} for {slow}", normal(u));
        }
    }

    #[test]
    fn a_normal_variable_is_shaped_as_a_uniform_one_is() {
        use Distribution::{Normal, Pareto, ParetoNormal, Uniform};
        for shape in [Uniform, Normal, Pareto, ParetoNormal] {
            for place in 1..1_000 {
                let u = f64::from(place) / 1e3;
                // Tolerates one table step in either direction; steps are wider towards the
                // tails.
                let near = [u - 0.0005, u + 0.0005].map(|u| shape.quantile(u));
                let got = shape.quantile_of_normal(normal(u));
                assert!(near[0] <= got && got <= near[1], "{shape:?} at {u}: {got} in {near:?}");
            }
        }
        assert_eq!(Normal.quantile_of_normal(9.0), MOST_JITTERS);
        assert_eq!(Normal.quantile_of_normal(-9.0), LEAST);
    }

    #[test]
    fn nothing_is_less_than_the_least() {
        use Distribution::{Normal, Pareto, ParetoNormal, Uniform};
        for shape in [Uniform, Normal, Pareto, ParetoNormal] {
            let least = shape.least();
            let quantiles = (0..10_000).map(|place| shape.quantile(f64::from(place) / 1e4));
            assert!(quantiles.into_iter().all(|got| got >= least), "{shape:?}");
            let normals = (-1_000..1_000).map(|z| shape.quantile_of_normal(f64::from(z) / 100.0));
            assert!(normals.into_iter().all(|got| got >= least), "{shape:?}");
        }
        assert!((Pareto.least() + 2.0 / 3.0).abs() < 1e-3, "as its description says");
    }

    #[test]
    fn a_table_is_read_as_iproute2_writes_it() {
        let text = "# This is a remark with 3 words.\n -8192 0\n 8192 16384\n";
        let table = Table::parse(Path::new("two.dist"), text).unwrap();
        let shape = Distribution::Table(table);
        assert_eq!([0.0, 0.25, 0.5, 0.999].map(|u| shape.quantile(u)), [-1.0, 0.0, 1.0, 2.0]);
        assert_eq!(shape.least(), -1.0);
        assert_eq!(shape.mean(), 0.5);
    }

    #[test]
    fn what_is_no_table_is_said_with_its_line() {
        let say = |text: &str| Table::parse(Path::new("a.dist"), text).unwrap_err().to_string();
        let number = "a.dist, line 2: `x` is not a whole number from -32768 to 32767";
        assert_eq!(say("1 2\n3 x"), number);
        assert_eq!(say("# nothing\n"), "a.dist has 0 numbers; a table needs 2 to 16384");
        let missing = Table::read(Path::new("/no/such.dist")).unwrap_err().to_string();
        assert!(missing.starts_with("could not read /no/such.dist: No such file"), "{missing}");
    }
}
