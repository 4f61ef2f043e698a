//! The logs of a node: what `thingbed logs --follow` prints, at a limited rate.

use crate::app::App;
use crate::count::Counted;
use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use serde::Deserialize;
use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep_until};

/// Lines of each log at the start.
const LINES: &str = "200";
/// Bytes sent at a time.
const CHUNK: usize = 16 * 1024;
/// Bytes sent in a `SECOND`. The rest of a program that prints more is not even read, because a measured
/// run shares the machine's processors with the page.
const RATE: usize = 128 * 1024;
const SECOND: Duration = Duration::from_secs(1);
/// Stands for the output that was left out.
const SKIPPED: &str = "\n[more output than 128 KiB in a second: a part of it is not shown here]\n";

/// Maximum number of logs that a page follows at a time.
const MOST: usize = 16;

/// The node of a request.
#[derive(Debug, Deserialize)]
pub(crate) struct Of {
    pub node: String,
}

/// Streams the logs of a node until the page closes the connection or the lab ends.
pub(crate) async fn logs(State(app): State<App>, Query(of): Query<Of>) -> Response {
    let Some(counted) = app.logs.take(MOST) else {
        let why = format!("{MOST} logs are followed already; close another page\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let program = match Program::follow(&app, &of.node) {
        Ok(started) => started,
        Err(error) => return format!("could not read the logs: {error}\n").into_response(),
    };
    let follower = Follower { app, of, program, since: Instant::now(), sent: 0, counted };
    let stream = unfold(follower, async |mut follower: Follower| {
        let part = follower.next().await.transpose()?;
        Some((part, follower))
    });
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], Body::from_stream(stream)).into_response()
}

/// What follows the logs of a node.
struct Follower {
    app: App,
    of: Of,
    program: Program,
    /// When this second began, and the bytes sent in it.
    since: Instant,
    sent: usize,
    #[expect(dead_code, reason = "counts the follower until dropped")]
    counted: Counted,
}

impl Follower {
    /// The next part; `None` at the end.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.since.elapsed() > SECOND {
            (self.since, self.sent) = (Instant::now(), 0);
        }
        if self.sent >= RATE {
            // From the end again, instead of all that the program prints in the meantime.
            self.program.child.kill().await?;
            sleep_until(self.since + SECOND).await;
            self.program = Program::follow(&self.app, &self.of.node)?;
            return Ok(Some(Bytes::from_static(SKIPPED.as_bytes())));
        }
        let mut buffer = vec![0; CHUNK];
        let length = self.program.output.read(&mut buffer).await?;
        self.sent += length;
        buffer.truncate(length);
        Ok((length > 0).then(|| Bytes::from(buffer)))
    }
}

/// A running `thingbed logs`; it ends when this is dropped.
struct Program {
    output: Receiver,
    child: Child,
}

impl Program {
    fn follow(app: &App, node: &str) -> io::Result<Self> {
        // One pipe for both outputs, which keeps their order.
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(&*app.tool);
        command.args(["logs", "--follow", "--tail", LINES, "--lab", &app.lab.to_string()]);
        command.args(["--", node]).stdin(Stdio::null());
        command.stdout(writer.try_clone()?).stderr(writer).kill_on_drop(true);
        let child = command.spawn()?;
        Ok(Self { child, output: Receiver::from_owned_fd(OwnedFd::from(reader))? })
    }
}
