//! A page in a browser to watch and control a running lab.
//!
//! It is served by a separate process, which is a client of the lab's control socket as the live
//! commands are: the page can do what they can, by the same requests, and a measured run shares
//! neither threads nor memory with it. The process ends with the lab's.
//!
//! Only its user may open the page: it listens on a loopback address or a socket file, answers only
//! requests that name a loopback host and come from itself, and gives data only for its token.

mod app;
mod assets;
mod connections;
mod count;
mod feed;
mod gate;
mod liveness;
mod logs;
mod metrics;
mod place;
mod requests;
mod server;
mod terminal;
mod token;

pub use place::Place;
pub use server::{Options, serve};
