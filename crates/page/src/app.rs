//! What requests are served from.

use crate::count::Count;
use crate::feed::Feed;
use crate::token::Token;
use std::path::Path;
use std::sync::Arc;

/// What requests are served from.
#[derive(Clone)]
pub(crate) struct App {
    pub lab: u32,
    pub tool: Arc<Path>,
    pub token: Arc<Token>,
    pub feed: Feed,
    pub terminals: Count,
    pub logs: Count,
}
