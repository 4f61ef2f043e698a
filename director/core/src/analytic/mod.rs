//! Parts of analytic predictions for models without measurements, for a shared channel with
//! independent frame loss. They are rough, so the policy treats them as uncertain. Each model's
//! prediction is in its file in `carrier/`.

mod case;
mod tcp;
#[cfg(test)]
mod tests;

pub use case::{ACK, Case, FRAME_OVERHEAD, LINK_HEADERS, Prediction, rounds};
pub use tcp::Stream;
