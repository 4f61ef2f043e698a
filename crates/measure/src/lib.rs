//! Measurement: frames as seen by the medium, messages as reported by programs, resource usage as
//! counted by the kernel; and the verdict whether the results are valid or show the limits of the
//! test machine.

mod accounting;
mod busy;
mod capture;
mod chain;
mod chance;
mod clients;
mod counts;
mod decisions;
mod departures;
mod evidence;
mod facts;
mod full_disk;
mod host;
mod intervals;
mod links;
mod loss_groups;
mod message;
mod message_table;
mod messages;
mod packet;
mod probes;
mod program_values;
mod sections;
mod tables;
mod times;
mod tolerance;
mod traffic;
mod usage;
mod verdict;

pub use accounting::{Accounting, NodeTraffic};
pub use busy::HostLoad;
pub use capture::{Capture, CaptureError, Filter, FilterError, LIBPCAP, Selection, Written};
pub use clients::{ClientRow, write_clients};
pub use counts::{Carried, Counts};
pub use decisions::{Decisions, ReplayError, read_decisions};
pub use departures::{Departure, Departures};
pub use facts::{Contended, Count, Facts, Failure, Lost, Overflows, Submitted};
pub use full_disk::{Auxiliary, FullDisk};
pub use host::Sampler;
pub use intervals::{IntervalLog, Intervals};
pub use links::LinkRow;
pub use loss_groups::LossGroups;
pub use message::{Failed, Message};
pub use message_table::MessageTable;
pub use messages::{outcomes, under_way};
pub use probes::{ProbeRow, write_probes};
pub use program_values::{ProgramValue, write_program_values};
pub use sections::{SectionRow, write_sections};
pub use tables::{TableError, write_links, write_messages, write_nodes};
pub use times::times;
pub use tolerance::{Deviation, FALSE_ALARMS, Tests, Tolerances};
pub use traffic::{Classifier, Kind, Traffic};
pub use usage::{Cost, HostUse, NodeTotal, Usage, UsageRow};
pub use verdict::judge;
