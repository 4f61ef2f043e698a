//! `thingbed page`: serves a page to watch and control a lab. `up --page` and `run --watch` start it.

use super::find;
use crate::arguments::Page;
use crate::environment::current_exe;
use crate::{Status, say};
use page::{Options, Place};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What precedes the URL that the command prints.
const HEAD: &str = "page: ";
/// Longest wait for a page to end.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// Serves the page until the lab ends.
pub fn page(arguments: &Page) -> Result<Status, String> {
    let lab = match arguments.process {
        Some(process) => process,
        None => find(&arguments.lab)?.pid,
    };
    let options = Options { lab, place: arguments.at.clone(), tool: current_exe() };
    let served = page::serve(options, |url| say(format_args!("{HEAD}{url}")));
    let at = &arguments.at;
    served.map(|()| Status::Fine).map_err(|error| match (error.kind(), at) {
        (std::io::ErrorKind::AddrInUse, Place::Port(_)) => format!(
            "could not serve the page on port {at}: another program uses it\n  name another port, \
             or none for any free one"
        ),
        (std::io::ErrorKind::AddrInUse, Place::Socket(_)) => format!(
            "could not serve the page on {at}: there is such a file, or another page uses it\n  \
             name another path"
        ),
        (std::io::ErrorKind::NotFound, Place::Socket(_)) => format!(
            "could not serve the page on {at}: there is no such folder\n  create it, or name another \
             path"
        ),
        (std::io::ErrorKind::PermissionDenied, Place::Port(port @ 1..1024)) => format!(
            "could not serve the page on port {port}: only root may use ports below 1024\n  name \
             another port, or none for any free one"
        ),
        _ => format!("could not serve the page on {at}: {error}"),
    })
}

/// The page of this process's labs, in a separate process. It ends when this is dropped, or when
/// this process ends.
pub(crate) struct PageProcess {
    child: Child,
    /// Where it is, for the user.
    pub url: String,
}

impl PageProcess {
    /// Starts a page, and waits until it is served.
    pub(crate) fn start(place: &Place) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("could not start the page: {error}");
        // One pipe for both outputs: the first line is the URL, or the error.
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        let mut command = Command::new(current_exe());
        let own = std::process::id().to_string();
        command.args(["page", "--process", &own, "--at", &place.to_string()]);
        let errors = writer.try_clone().map_err(failed)?;
        command.stdin(Stdio::null()).stdout(writer).stderr(errors);
        // Ctrl-C in this terminal is for this process; the page stays until the lab has ended.
        command.process_group(0);
        let child = command.spawn().map_err(failed)?;
        drop(command);
        // From here on a failure drops the child and so ends it.
        let mut started = Self { child, url: String::new() };
        let (mut output, mut text) = (BufReader::new(reader), String::new());
        output.read_line(&mut text).map_err(failed)?;
        match text.strip_prefix(HEAD) {
            Some(url) => started.url = url.trim_end().to_owned(),
            None => {
                let _ = output.read_to_string(&mut text);
                return Err(text.trim_end().to_owned());
            }
        }
        Ok(started)
    }
}

impl Drop for PageProcess {
    fn drop(&mut self) {
        // SIGTERM first, so that a page on a socket file removes the file.
        let Ok(pid) = i32::try_from(self.child.id()) else { return };
        // SAFETY: sends a signal to a child that has not been waited for.
        unsafe { libc::kill(pid, libc::SIGTERM) };
        let limit = Instant::now() + ENDS_WITHIN;
        while Instant::now() < limit {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
