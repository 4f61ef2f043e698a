//! `thingbed gc`: removes leftovers.

use crate::{Status, complain, say, virtual_time};
use image::Cache;

/// Removes the leftovers of killed Thingbed processes and reports them. With `images`, also removes
/// unpacked images that no lab uses, and saved guest states.
pub fn gc(images: bool) -> Status {
    let found = match lab::collect() {
        Ok(found) => found,
        Err(error) => {
            complain(format!(
                "could not read the ledger in {}: {error}",
                lab::ledger_dir().display()
            ));
            return Status::Failed;
        }
    };
    // Control sockets of processes that no longer run.
    let _ = runner::forget();
    let guests = guest::remove_leftovers();
    if guests > 0 {
        say(format_args!(
            "removed the folders of {guests} guests whose Thingbed process no longer runs"
        ));
    }
    let mut status = Status::Fine;
    for leftover in &found {
        for group in &leftover.cgroups {
            say(format_args!(
                "removed the cgroup {} of process {}, which no longer runs",
                group.display(),
                leftover.pid
            ));
        }
        for failure in &leftover.failed {
            complain(format!(
                "could not remove all leftovers of process {}: {failure}",
                leftover.pid
            ));
            status = Status::Failed;
        }
    }
    if guests == 0 && found.iter().all(|leftover| leftover.cgroups.is_empty()) {
        // Before images and states, which are caches and no leftovers.
        say("no leftovers found");
    }
    let states = if images { guest::remove_states(&virtual_time::cache()) } else { 0 };
    if states > 0 {
        say(format_args!("removed {states} saved guest states of virtual time"));
    }
    match cached(images) {
        Ok(()) => status,
        Err(error) => {
            let cache = Cache::of_user();
            complain(format!(
                "could not clear the image cache in {}: {error}",
                cache.path().display()
            ));
            Status::Failed
        }
    }
}

/// Lists the images in the cache, or removes them.
fn cached(remove: bool) -> std::io::Result<()> {
    let cache = Cache::of_user();
    let images = cache.list()?;
    if !remove && !images.is_empty() {
        let (count, place) = (images.len(), cache.path().display());
        let s = if count == 1 { "" } else { "s" };
        say(format_args!(
            "{count} image{s} in the cache {place}; to remove them: thingbed gc --images"
        ));
    }
    for image in images.iter().filter(|_| remove) {
        // A lab that is up locks its images (decision 15), so a removal cannot pull files from
        // under its nodes.
        match cache.remove(&image.digest)? {
            true => say(format_args!("removed the image {}", image.digest)),
            false => say(format_args!("kept the image {}: a lab uses it", image.digest)),
        }
    }
    Ok(())
}
