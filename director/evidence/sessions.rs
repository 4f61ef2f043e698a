//! Memory and CPU of a session, by model: a thousand sessions in one process, each with its
//! member in the same process, over loopback.
//!
//!     cargo run --release -p bench --example director-sessions [SESSIONS]
//!
//! Measures each model in a separate process. Prints a table in Markdown.

use director::io::{Preconnection, Session};
use director::session::Security;
use director::{Conditions, ModelId, Pattern};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

const MESSAGES: usize = 10;
const PAYLOAD: usize = 200;
const FIRST_PORT: u16 = 20_000;
const IDLE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let count = arguments.first().and_then(|count| count.parse().ok()).unwrap_or(1_000);
    match arguments.get(1) {
        None => table(count),
        Some(name) => {
            let Some(model) = director::carrier::available().into_iter().find(|m| m.name() == name)
            else {
                eprintln!("unknown model: {name}");
                return ExitCode::from(2);
            };
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime.map(|runtime| runtime.block_on(measure(model, count))) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("{error}");
                    ExitCode::FAILURE
                }
            }
        }
    }
}

fn table(count: u16) -> ExitCode {
    println!(
        "| model | sessions | answers | kB per session with its member | us of CPU per message and answer | us of CPU per idle session and second |"
    );
    println!("| --- | --- | --- | --- | --- | --- |");
    let Ok(own) = std::env::current_exe() else { return ExitCode::FAILURE };
    for model in director::carrier::available() {
        // A process for each, because memory that a model has freed may stay resident.
        let status = Command::new(&own).args([count.to_string(), model.to_string()]).status();
        if !status.is_ok_and(|status| status.success()) {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn measure(model: ModelId, count: u16) {
    let before = resident();
    let mut sessions: Vec<Session> = Vec::new();
    for number in 0..count {
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let (hub, member) = (at(FIRST_PORT + 2 * number), at(FIRST_PORT + 2 * number + 1));
        let [high, low] = number.to_be_bytes();
        // 239.255.0.0/16: the local scope (RFC 2365, section 6.1).
        let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, high, low), 5_777);
        let pattern = match model.features().patterns.contains(&Pattern::RequestResponse) {
            true => Pattern::RequestResponse,
            false => Pattern::PublishCollect,
        };
        let new = || Preconnection::new(pattern, Security::Key(b"a key that both have".to_vec()));
        let mut listener = new().listen(member, hub).expect("a member");
        tokio::spawn(async move {
            while let Some(request) = listener.next().await {
                let answer = request.message.clone();
                request.reply(&answer);
            }
        });
        let assumed = Conditions { payload: PAYLOAD as f64, ..Conditions::default() };
        let session = new().group(group).models(&[model]).assume(assumed);
        sessions.push(session.initiate(hub, &[member]).expect("a session"));
    }
    // Joining is not a part of the measurement.
    for session in &sessions {
        assert!(session.ready(Duration::from_secs(60)).await, "a member did not join");
    }
    let (began, mut answers) = (cpu(), 0);
    for _ in 0..MESSAGES {
        let in_flight: Vec<_> = sessions
            .iter()
            .cloned()
            .map(|session| tokio::spawn(async move { session.collect(&[7; PAYLOAD]).await }))
            .collect();
        for collected in in_flight {
            let collected = collected.await.expect("a task").expect("a message");
            answers += collected.answers.len();
        }
    }
    let busy = cpu() - began;
    // Before the pause, with the sessions in use.
    let memory = resident().saturating_sub(before);
    let (began, since) = (cpu(), Instant::now());
    tokio::time::sleep(IDLE).await;
    let idle = (cpu() - began).as_secs_f64() / since.elapsed().as_secs_f64();
    let sent = MESSAGES * usize::from(count);
    println!(
        "| `{model}` | {count} | {answers} of {sent} | {:.0} | {:.0} | {:.0} |",
        memory as f64 / f64::from(count) / 1e3,
        busy.as_secs_f64() * 1e6 / sent as f64,
        idle * 1e6 / f64::from(count),
    );
}

/// Resident memory of the process in bytes.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    // Pages of 4 KiB, as on x86-64.
    pages * 4_096
}

/// CPU time of the process.
fn cpu() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours and outlives the call.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
