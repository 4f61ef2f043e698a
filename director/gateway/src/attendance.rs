//! Lines for the operator about devices that join and leave.

use director::MemberId;
use director::io::Session;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Time between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of devices of a look that have a line each; more have one together.
const MOST: usize = 8;

/// Members and their addresses, if they are known.
type Present = BTreeMap<MemberId, Option<SocketAddr>>;

/// The devices that have joined.
pub struct Attendance {
    /// When to look.
    pub ticks: Interval,
    present: Present,
}

impl Attendance {
    /// No device has joined.
    pub fn new() -> Self {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, present: Present::new() }
    }

    /// Lines about what has changed since the last look.
    pub async fn look(&mut self, session: &Session) -> Vec<String> {
        let now = session.present().await;
        let before = std::mem::replace(&mut self.present, now);
        let mut lines = changes(&before, &self.present, "joined");
        lines.extend(changes(&self.present, &before, "left"));
        lines
    }
}

/// Lines about those that are only in `present`.
fn changes(former: &Present, present: &Present, what: &str) -> Vec<String> {
    let new: Vec<_> = present.iter().filter(|(member, _)| !former.contains_key(member)).collect();
    if new.len() > MOST {
        let numbers: Vec<String> = new.iter().map(|(member, _)| member.to_string()).collect();
        return vec![format!("{} devices have {what}: {}", new.len(), numbers.join(", "))];
    }
    let line = |(member, address): (&MemberId, &Option<SocketAddr>)| match address {
        Some(address) => format!("device {member} at {address} has {what}"),
        None => format!("device {member} has {what}"),
    };
    new.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_has_a_line_and_many_have_one() {
        let address: SocketAddr = ([10, 0, 0, 1], 5_700).into();
        let (none, two) = (Present::new(), Present::from([(0, Some(address)), (3, None)]));
        let joined = ["device 0 at 10.0.0.1:5700 has joined", "device 3 has joined"];
        assert_eq!(changes(&none, &two, "joined"), joined);
        assert_eq!(changes(&two, &none, "joined"), Vec::<String>::new());
        let many = (0..12).map(|member| (member, None)).collect();
        let line = changes(&two, &many, "left");
        assert_eq!(line, ["10 devices have left: 1, 2, 4, 5, 6, 7, 8, 9, 10, 11"]);
    }
}
