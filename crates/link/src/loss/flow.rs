//! What a loss model remembers of a flow.

use crate::Trains;
use crate::correlated::Correlated;

/// State of a loss model in one flow.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossFlow {
    pub draws: Correlated,
    /// Numbers the loss units of several frames.
    pub trains: Option<Box<Trains>>,
    /// The last such unit, and whether it is lost.
    pub last: Option<(u64, bool)>,
    /// Gilbert-Elliott: whether the state is bad; `None` before the first frame.
    pub bad: Option<bool>,
    /// Markov: 1 to 4; `None` before the first frame.
    pub state: Option<u8>,
    /// Long-term shares of the states under the settings before, if these have changed since the
    /// last frame.
    pub before: Option<Box<[f64; 4]>>,
}
