//! Updates name resolution when nodes are added or removed.

use crate::bed::jobs::Job;
use crate::bed::services::is_name_server;
use crate::bed::topology::hosts_of;
use experiment::Plan;
use lab::{Error, Lab};

/// Publishes the names of all running nodes to all nodes, by hosts file and name server.
pub(crate) fn publish_names(plan: &Plan, lab: &mut Lab, jobs: &[Job]) -> Result<(), Error> {
    let hosts = hosts_of(plan, |node| !lab.nodes()[node].is_gone);
    lab.set_hosts(&hosts)?;
    for (id, job) in jobs.iter().enumerate() {
        // Other services would end.
        if is_name_server(job) && job.is_alive() {
            lab.nodes()[job.node].kind.signal(id as u64, libc::SIGHUP);
        }
    }
    Ok(())
}
