//! Context switches of processes, from the kernel's task statistics (taskstats).

use crate::netlink::{Message, Socket, find};

/// `linux/genetlink.h` and `linux/taskstats.h`.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const FAMILY_ID: u16 = 1;
const GET: u8 = 1;
const BY_PROCESS: u16 = 2;
const OF_PROCESS: u16 = 5;
const STATS: u16 = 3;
/// Offset of `nvcsw` in `struct taskstats`; `nivcsw` follows.
const SWITCHES: usize = 272;

/// Reads context switches. One request per process covers all its threads, at a quarter of the cost
/// of reading `/proc/PID/status` of each.
#[derive(Debug)]
pub(crate) struct Switches {
    socket: Socket,
    family: u16,
}

impl Switches {
    /// Opens the socket; `None` if the kernel has no task statistics or allows them to root only.
    pub fn open() -> Option<Self> {
        let socket = Socket::open(libc::NETLINK_GENERIC).ok()?;
        let mut request = Message::new(CONTROL, 0, &[GET_FAMILY, 1, 0, 0]);
        request.text(FAMILY_NAME, "TASKSTATS");
        let answer = socket.exchange(&request.finish()).ok()?;
        let family = find(answer.get(4..)?, FAMILY_ID)?;
        let switches = Self { socket, family: u16::from_ne_bytes(*family.first_chunk()?) };
        // Tried at once: the kernel may have task statistics and refuse them to this user.
        switches.of(std::process::id() as i32).map(|_| switches)
    }

    /// Voluntary and involuntary context switches of a process's living threads.
    pub fn of(&self, pid: i32) -> Option<[u64; 2]> {
        let mut request = Message::new(self.family, 0, &[GET, 1, 0, 0]);
        request.bytes(BY_PROCESS, &pid.to_ne_bytes());
        let answer = self.socket.exchange(&request.finish()).ok()?;
        let stats = find(find(answer.get(4..)?, OF_PROCESS)?, STATS)?;
        let at = |place: usize| stats.get(place..)?.first_chunk().map(|n| u64::from_ne_bytes(*n));
        Some([at(SWITCHES)?, at(SWITCHES + 8)?])
    }
}

/// The same from `/proc/PID/task/*/status` (proc_pid_status(5)), for users without access to
/// taskstats.
pub(crate) fn from_status(pid: i32) -> Option<[u64; 2]> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    let mut sum = [0; 2];
    for task in tasks.flatten() {
        let text = std::fs::read_to_string(task.path().join("status")).unwrap_or_default();
        // Both lines are the last of the file.
        for line in text.lines().rev().take(4) {
            let Some((key, value)) = line.split_once(':') else { continue };
            let which = match key {
                "voluntary_ctxt_switches" => 0,
                "nonvoluntary_ctxt_switches" => 1,
                _ => continue,
            };
            sum[which] += value.trim().parse::<u64>().unwrap_or(0);
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_a_switch_and_both_ways_count_it() {
        let me = std::process::id() as i32;
        let before = from_status(me).unwrap();
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let after = from_status(me).unwrap();
        // Other tests' threads may have ended; their switches are then missing.
        assert!(after[0] > 0 && before[0] > 0);
        if let Some(switches) = Switches::open() {
            let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
            let pid = child.id() as i32;
            // It sleeps at some time, and then nothing moves.
            let agree = || {
                std::thread::sleep(std::time::Duration::from_millis(20));
                let counted = switches.of(pid).unwrap();
                counted[0] > 0 && Some(counted) == from_status(pid)
            };
            assert!((0..3_000).any(|_| agree()));
            let _ = child.kill();
            let _ = child.wait();
            assert_eq!(switches.of(pid), None);
        }
    }
}
