//! The table of evidence for verdicts: what is measured of the test bed itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Who causes evidence to exceed its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A busy or slow machine.
    Machine,
    /// Something else, or several things.
    Other,
}

/// Declares the subjects of evidence and reasons: name, unit, cause, and what it means for the
/// results.
macro_rules! subjects {
    ($($Subject:ident: $name:literal, $unit:literal, $cause:ident, $meaning:literal;)+) => {
        /// What a piece of evidence or a reason is about. The name in files and tables, the unit and
        /// the meaning belong to it, so that no two can be confused.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub enum Subject {
            $(
                #[doc = $name]
                #[serde(rename = $name)]
                $Subject,
            )+
            /// A name that this version does not know; empty for none.
            #[serde(untagged)]
            Other(String),
        }

        impl Subject {
            /// All subjects of this version.
            pub const ALL: &[Self] = &[$(Self::$Subject),+];

            /// Its name in files and tables.
            pub fn name(&self) -> &str {
                match self {
                    $(Self::$Subject => $name,)+
                    Self::Other(name) => name,
                }
            }

            /// The unit of values and limits; empty for failures.
            pub fn unit(&self) -> &'static str {
                match self {
                    $(Self::$Subject => $unit,)+
                    Self::Other(_) => "",
                }
            }

            /// What it means for the results.
            pub fn meaning(&self) -> &'static str {
                match self {
                    $(Self::$Subject => $meaning,)+
                    Self::Other(_) => "",
                }
            }

            /// Whether a busy or slow machine causes it.
            pub fn is_of_machine(&self) -> bool {
                let cause = match self {
                    $(Self::$Subject => Cause::$cause,)+
                    Self::Other(_) => Cause::Other,
                };
                cause == Cause::Machine
            }
        }
    };
}

subjects! {
    DelayedLatenessP99: "forwarding lateness (delayed links), p99", "us", Machine,
        "delays may be longer than configured by this much: the machine did not let Thingbed forward \
         frames in time. Use fewer nodes, close other programs, or run as root for real-time priority";
    DelayedLatenessMax: "forwarding lateness (delayed links), max", "us", Machine,
        "delays may be longer than configured by this much: the machine did not let Thingbed forward \
         frames in time. Use fewer nodes, close other programs, or run as root for real-time priority";
    UndelayedLatenessP99: "forwarding lateness (undelayed links), p99", "us", Machine,
        "round trips may be longer by this much: the machine did not let Thingbed forward frames in \
         time, or a multicast went to many members one after the other";
    UndelayedLatenessMax: "forwarding lateness (undelayed links), max", "us", Machine,
        "round trips may be longer by this much: the machine did not let Thingbed forward frames in \
         time, or a multicast went to many members one after the other";
    LongestStall: "longest stall of the forwarding thread", "us", Other,
        "some frames may have been delayed by this much more: another program or, on a virtual \
         machine, its host had the processor. Run again at a quieter time";
    FramesReadLate: "frames read late, max", "us", Machine,
        "a frame waited this long before its delay began: more frames came than this machine \
         forwards. Lower the rate";
    ScheduleSlip: "schedule slip of senders, p99", "ms", Machine,
        "messages were sent later than scheduled, and round trips include that: the sender or the \
         machine was too slow. Lower the rate, or use fewer nodes";
    MessagesNeverSent: "messages never sent", "messages", Other,
        "the load was not the configured one: senders did not send all scheduled messages";
    RequestsNeverSent: "requests never sent", "%", Machine,
        "the load was lower than configured: this machine could not send the rate. Lower it, or \
         configure more `senders`";
    RequestInterval: "request interval, measured against configured", "%", Machine,
        "the mean time between two requests differs by this much: the load was not the configured \
         one";
    RequestSlip: "request slip, p99, share of its allowance", "%", Machine,
        "requests were sent later than scheduled, and response times include that. Allowed is a \
         tenth of the time between two requests, at least 100 us";
    ConnectionWait: "wait of requests for a connection, p99", "ms", Other,
        "for information: how long requests waited for a free connection to the target. Response \
         times include it; it is the target's, not this machine's";
    ProbeContention: "contention at the probes", "%", Machine,
        "probes with a known service time took this much longer: programs waited for the machine. \
         Use fewer nodes, place them on other cores, or lower the rate";
    SaturatedCpus: "seconds with saturated CPUs", "%", Machine,
        "programs waited for the machine: over 95 % of all CPU time was used. Use fewer nodes, close \
         other programs, or use a larger machine";
    CpuSteal: "CPU steal", "%", Machine,
        "the hypervisor gave this share of CPU time to other virtual machines. Run again at a \
         quieter time, or on a machine of your own";
    CpuPressure: "CPU pressure", "%", Machine,
        "programs waited for a CPU in this share of the time. Use fewer nodes, or close other \
         programs";
    RunDelay: "run delay of programs", "%", Other,
        "informational: how long the nodes' programs waited for a CPU, as a share of the time in \
         which they ran or waited; throttling by limits is not included";
    RunDelayPerMessage: "run delay of programs per message", "ms", Other,
        "informational: by at most this much did waiting for a CPU make a message slower, on average";
    BusyInFlight: "CPUs busy while messages were in flight", "%", Other,
        "informational: near 100 %, delays come from the programs' own work on this machine, and a \
         faster machine has shorter ones";
    KernelDrops: "frames dropped by the kernel", "%", Other,
        "frames were lost between a node and the emulated network, in addition to the configured \
         loss: more came than this machine forwards. Lower the rate";
    FramesRejected: "frames rejected", "frames", Other,
        "networks did not forward these: they were longer than the MTU allows, or came from another \
         node's Ethernet address (or, with `source_addresses: own`, any but the interface's own)";
    GroupsBeyond: "joins of multicast groups beyond the limit", "joins", Other,
        "informational: a node announced more multicast groups than a switch keeps (256 for each \
         interface). It received the traffic of all groups from then on, and missed none";
    AddressesForgotten: "addresses forgotten by switches", "addresses", Other,
        "informational: a node used more Ethernet addresses than a switch keeps. Frames to the \
         forgotten ones were flooded until they sent again";
    FlowsForgotten: "flows forgotten by random decisions", "flows", Other,
        "informational: a node sent to more addresses and ports than a link keeps. Random decisions \
         about the forgotten flows began anew; their statistics are as configured";
    ConnectionsForgotten: "TCP flows forgotten by counters", "flows", Other,
        "informational: there were more TCP connections than counters keep. The first segment of a \
         forgotten one does not count as a retransmission";
    OutputDropped: "program output not kept", "MB", Other,
        "informational: a program printed more than a log keeps (`limits.output`, default 64 MiB). \
         Its log has the beginning and the end, and a line where the rest was";
    BacklogDrops: "packets dropped at kernel backlogs", "packets", Machine,
        "queues of the kernel's network work were full, possibly with other traffic of this machine";
    SocketDrops: "datagrams dropped at full sockets", "datagrams", Other,
        "a program did not read in time, so that messages were lost in addition to the configured \
         loss; on a faster machine it might. Larger socket buffers help";
    LinksOutside: "links outside tolerance", "%", Other,
        "in this share of their intervals, links had another delay, loss or rate than configured, by \
         more than chance and the allowed lateness explain";
    NetemLinks: "link directions impaired by netem", "directions", Other,
        "informational: the kernel made these impairments; losses are those that it counted, and \
         delays were not measured";
    ByteCounts: "byte counts of endpoints against Thingbed's", "%", Other,
        "bytes of exchanges may be wrong by this much: the nodes' kernels, or the capture, counted \
         other bytes than Thingbed forwarded";
    CaptureMissed: "frames missing from the capture", "frames", Other,
        "the disk was slower than the network; all figures are complete, the capture is not";
    LostToFullDisk: "parts lost to a full disk", "parts", Other,
        "the disk was full, and Thingbed gave these up to keep the figures, which are complete. Free \
         space, or use another folder with --out";
    EmulatedNodes: "nodes that QEMU emulates", "nodes", Other,
        "informational: CPU time and memory of these nodes are QEMU's on this machine, not the device's";
    ProgramFailed: "a program failed", "", Other,
        "the figures are of a run in which not all programs did their work";
    RunFailed: "the run did not go as planned", "", Other, "";
}

impl Default for Subject {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/verdict.md explains each piece of evidence by its name.
    #[test]
    fn the_page_lists_all_evidence() {
        let page = include_str!("../../../docs/verdict.md");
        let listed = |subject: &Subject| page.contains(&format!("\n| {}", subject.name()));
        let failures = [Subject::ProgramFailed, Subject::RunFailed];
        let missing: Vec<&str> = Subject::ALL
            .iter()
            .filter(|subject| !failures.contains(subject) && !listed(subject))
            .map(Subject::name)
            .collect();
        assert!(missing.is_empty(), "docs/verdict.md lacks {missing:?}");
    }
}
