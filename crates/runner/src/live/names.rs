//! Names that nodes know each other by, while nodes come and go.

use crate::jobs::{Job, Role};
use crate::topology::hosts_of;
use experiment::Plan;
use lab::{Error, Lab};

/// Lets all nodes know the names of all nodes that are up, by file and by name server.
pub(crate) fn tell_names(plan: &Plan, lab: &mut Lab, jobs: &[Job]) -> Result<(), Error> {
    let hosts = hosts_of(plan, |node| lab.is_up(node));
    lab.set_hosts(&hosts)?;
    for (id, job) in jobs.iter().enumerate() {
        if job.role == Role::Service && job.is_alive() {
            // dnsmasq reads its hosts file again.
            lab.signal(job.node, id as u64, libc::SIGHUP);
        }
    }
    Ok(())
}
