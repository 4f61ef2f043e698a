//! Connects the gateways with sockets: clients, and a session of the director.

use crate::attendance::Attendance;
use crate::device::Device;
use crate::folder::Folder;
use crate::gateway::{Effect, Ended, Lane, Side};
use crate::hub::Hub;
use crate::keeper::Keeper;
use crate::log::Log;
use crate::server::{Event, Server};
use director::io::{Inbox, Listener, Publisher, Session};
use director::session::SessionError;
use director::{Failure, MessageProperties, Outcome};
use std::io;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};

/// Period of [`Side::tick`].
const SECOND: Duration = Duration::from_secs(1);
/// Maximum number of events for which what changes is written together.
const MOST_AT_ONCE: usize = 64;

/// What both gateways have.
struct Driver {
    server: Server,
    ended: mpsc::UnboundedReceiver<(Lane, Ended)>,
    report: mpsc::UnboundedSender<(Lane, Ended)>,
    ticks: Interval,
    log: Log,
}

impl Driver {
    fn new(clients: TcpListener) -> Self {
        let (report, ended) = mpsc::unbounded_channel();
        let mut ticks = interval(SECOND);
        // Ticks count seconds of silence; several at once after a pause would count too many.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { server: Server::new(clients), ended, report, ticks, log: Log::default() }
    }

    /// Waits for what clients, frames on their way, or the clock do.
    async fn next(&mut self, side: &mut impl Side) -> Vec<Effect> {
        tokio::select! {
            Some(event) = self.server.next() => receive(side, event),
            Some((lane, how)) = self.ended.recv() => side.ended(lane, how),
            _ = self.ticks.tick() => {
                self.log.tick();
                let mut effects: Vec<Effect> =
                    self.server.report().into_iter().map(Effect::Log).collect();
                effects.extend(side.tick());
                effects
            }
        }
    }

    /// What is ready already: one sync serves many events.
    async fn ready(&mut self, side: &mut impl Side) -> Vec<Effect> {
        let mut effects = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            tokio::select! {
                biased;
                more = self.next(side) => effects.extend(more),
                () = std::future::ready(()) => break,
            }
        }
        effects
    }

    /// Executes effects; a frame goes to `transport`, which returns how it ended.
    fn execute<F>(&mut self, effects: Vec<Effect>, transport: impl Fn(Frame) -> F)
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        for effect in effects {
            match effect {
                Effect::Send(connection, packet) => self.server.send(connection, packet),
                Effect::Close(connection) => self.server.close(connection),
                Effect::Log(text) => self.log.write(&text),
                Effect::Later(lane) => {
                    let report = self.report.clone();
                    tokio::spawn(async move {
                        sleep(SECOND).await;
                        let _ = report.send((lane, Ended::Waited));
                    });
                }
                Effect::Transport { lane, frame: bytes, members, is_request, lifetime } => {
                    let ended = transport(Frame { bytes, members, is_request, lifetime });
                    let report = self.report.clone();
                    tokio::spawn(async move {
                        let _ = report.send((lane, ended.await));
                    });
                }
            }
        }
    }
}

/// A frame to send.
struct Frame {
    bytes: Vec<u8>,
    members: Vec<u32>,
    is_request: bool,
    lifetime: Duration,
}

/// An event of a client's connection.
fn receive(side: &mut impl Side, event: Event) -> Vec<Effect> {
    let actions = match event {
        Event::Opened(connection, connect, _) => side.clients().connect(connection, *connect),
        Event::Refused(connection, code) => side.clients().fail(connection, code),
        Event::Closed(connection) => {
            let mut actions = vec![crate::clients::Action::Close(connection)];
            actions.extend(side.clients().close(connection, false));
            actions
        }
        Event::Received(connection, packet, room) => {
            side.clients().receive(connection, packet, room)
        }
    };
    side.act(actions)
}

/// Runs the gateway of a device, until its session ends. With a folder, sessions of clients are on the disk
/// before anything that follows from their changes is sent.
///
/// # Errors
/// If there can be no further attempt to store sessions.
pub async fn run_device(
    clients: TcpListener,
    mut listener: Listener,
    device: Device,
    greetings: Vec<Effect>,
    folder: Option<Folder>,
) -> io::Result<()> {
    let publisher = listener.publisher();
    let (mut driver, mut keeper) = (Driver::new(clients), Keeper::new(folder));
    let (mut device, mut effects) = (device, greetings);
    loop {
        if keeper.has_folder() {
            effects.extend(driver.ready(&mut device).await);
        }
        effects.extend(keeper.save(&mut device).await?);
        driver.execute(effects, |frame| send_up(publisher.clone(), frame));
        effects = tokio::select! {
            effects = driver.next(&mut device) => effects,
            frame = listener.next() => match frame {
                Some(frame) => device.receive(&frame.message),
                None => return Ok(()),
            },
        };
    }
}

async fn send_up(publisher: Publisher, frame: Frame) -> Ended {
    let lifetime = frame.lifetime.into();
    let properties = MessageProperties { lifetime, ..MessageProperties::default() };
    let outcome = match frame.is_request {
        true => publisher.request(&frame.bytes, properties).await,
        false => publisher.publish(&frame.bytes, properties).await,
    };
    match outcome {
        Ok(Outcome::Acknowledged(answer)) => Ended::Delivered(answer.unwrap_or_default()),
        Ok(Outcome::Failed(Failure::TooLong { .. })) | Err(SessionError::TooLong(_)) => {
            Ended::TooLong
        }
        Err(SessionError::Full(_)) => Ended::Full,
        Ok(Outcome::Failed(_) | Outcome::Unknown) | Err(_) => Ended::Lost,
    }
}

/// Runs the gateway of the hub, until its session ends. With a folder, retained messages and sessions of
/// clients are on the disk before messages for them are acknowledged.
///
/// # Errors
/// If there can be no further attempt to store them.
pub async fn run_hub(
    clients: TcpListener,
    session: Session,
    mut inbox: Inbox,
    hub: Hub,
    greetings: Vec<Effect>,
    folder: Option<Folder>,
) -> io::Result<()> {
    let (mut driver, mut keeper) = (Driver::new(clients), Keeper::new(folder));
    let (mut hub, mut effects) = (hub, greetings);
    let mut attendance = Attendance::new();
    loop {
        if keeper.has_folder() {
            effects.extend(driver.ready(&mut hub).await);
        }
        effects.extend(keeper.save(&mut hub).await?);
        driver.execute(effects, |frame| send_down(session.clone(), frame));
        effects = tokio::select! {
            effects = driver.next(&mut hub) => effects,
            _ = attendance.ticks.tick() => {
                let lines = attendance.look(&session).await;
                lines.into_iter().map(Effect::Log).collect()
            }
            frame = inbox.next() => {
                let Some(frame) = frame else { return Ok(()) };
                let before = hub.revision();
                let (answer, mut effects) = hub.receive(frame.member(), &frame.message);
                let is_stored = hub.revision() != before;
                // A device acknowledges what the hub has: not before it is stored.
                match keeper.save(&mut hub).await {
                    Ok(saved) => effects.extend(saved),
                    Err(error) => {
                        // Dropped, it would count as taken.
                        std::mem::forget(frame);
                        return Err(error);
                    }
                }
                match answer {
                    Some(answer) => frame.reply(&answer),
                    None => keeper.take(frame, is_stored),
                }
                effects
            }
        };
    }
}

async fn send_down(session: Session, frame: Frame) -> Ended {
    let sent = session.send_within(&frame.members, &frame.bytes, frame.lifetime).await;
    match sent {
        Ok(collected) if collected.lacking.is_empty() => Ended::Delivered(Vec::new()),
        Ok(collected) => Ended::Lacking(collected.lacking),
        Err(SessionError::Refused(..)) => Ended::TooLong,
        Err(SessionError::Full(_)) => Ended::Full,
        Err(_) => Ended::Lost,
    }
}
