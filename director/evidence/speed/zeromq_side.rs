//! The same group over ZeroMQ: the hub on the caller's thread, all members on another, and an I/O
//! thread of libzmq for each end.

use crate::{Failure, Side, Speed, cpu};
use stacks::zeromq::{
    DEALER, DONTWAIT, Limits, Message, POLLIN, PUB, PollItem, ROUTER, SNDMORE, SUB, Socket,
    SocketType, context, poll,
};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

static NEXT_PORT: AtomicU16 = AtomicU16::new(15_000);
// No limit: PUB and ROUTER drop messages at a limit, and the hub would wait for their answers for
// ever.
const LIMITS: Limits = Limits { queue: 0, linger_ms: 0, largest: None };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// A message to each member.
    Router,
    /// A message to all.
    Publish,
}

impl Pattern {
    pub fn name(self) -> &'static str {
        match self {
            Self::Router => "ZeroMQ ROUTER, DEALER",
            Self::Publish => "ZeroMQ PUB, SUB, PUSH, PULL",
        }
    }
}

/// A hub, whose members are on another thread.
pub struct Zeromq {
    pattern: Pattern,
    members: usize,
    message: Vec<u8>,
    /// ROUTER, or PUB.
    out: Socket,
    /// PULL.
    answers: Option<Socket>,
}

impl Zeromq {
    /// Starts the group, and waits until all members answer.
    pub fn start(members: usize, pattern: Pattern, payload: usize) -> Result<Self, Failure> {
        let context = context()?;
        let port = NEXT_PORT.fetch_add(2, Relaxed);
        let [out_at, answers_at] = [port, port + 1].map(|port| format!("tcp://127.0.0.1:{port}"));
        let kind = if pattern == Pattern::Router { ROUTER } else { PUB };
        let mut out = Socket::new(&context, kind, LIMITS)?;
        out.bind(&out_at)?;
        let answers = match pattern {
            Pattern::Router => None,
            Pattern::Publish => {
                let mut answers = Socket::new(&context, SocketType::PULL, LIMITS)?;
                answers.bind(&answers_at)?;
                Some(answers)
            }
        };
        thread::Builder::new().name("members".into()).spawn(move || {
            if let Err(why) = serve(members, pattern, &out_at, &answers_at) {
                eprintln!("ZeroMQ members: {why}");
            }
        })?;
        let mut own = Self { pattern, members, message: vec![7; payload], out, answers };
        // Members greet the hub; with PUB they also need time to subscribe.
        for _ in 0..members {
            own.receive()?;
        }
        thread::sleep(Duration::from_millis(500));
        Ok(own)
    }

    /// Sends the message of a place in the window to all members.
    fn send(&mut self, place: usize) -> Result<(), Failure> {
        // Answers of different messages overtake one another, so each names its place.
        self.message[..4].copy_from_slice(&(place as u32).to_be_bytes());
        match self.pattern {
            Pattern::Publish => drop(self.out.send(&self.message, 0)?),
            Pattern::Router => {
                for member in 0..self.members as u32 {
                    self.out.send(&name(member), SNDMORE)?;
                    self.out.send(&self.message, 0)?;
                }
            }
        }
        Ok(())
    }

    /// The place in the window of the next answer.
    fn receive(&mut self) -> Result<usize, Failure> {
        let from = self.answers.as_ref().unwrap_or(&self.out).raw();
        let mut message = Message::new();
        from.recv(&mut message, 0)?;
        // ROUTER puts the member's name before the message.
        if self.pattern == Pattern::Router {
            from.recv(&mut message, 0)?;
        }
        let place = message.first_chunk().ok_or("a short answer")?;
        Ok(u32::from_be_bytes(*place) as usize)
    }
}

impl Side for Zeromq {
    fn run(&mut self, window: usize, time: Duration) -> Result<Speed, Failure> {
        let (began, busy) = (Instant::now(), cpu());
        let mut missing = vec![self.members; window];
        for place in 0..window {
            self.send(place)?;
        }
        let (mut answers, mut open) = (0, window);
        while open > 0 {
            let place = self.receive()?;
            answers += 1;
            missing[place] -= 1;
            if missing[place] > 0 {
                continue;
            }
            if began.elapsed() < time {
                missing[place] = self.members;
                self.send(place)?;
            } else {
                open -= 1;
            }
        }
        Ok(Speed {
            answers_s: f64::from(answers) / began.elapsed().as_secs_f64(),
            cpu_us: (cpu() - busy).as_secs_f64() * 1e6 / f64::from(answers),
        })
    }

    fn delays(&mut self, requests: usize, pause: Duration) -> Result<Vec<Duration>, Failure> {
        let mut delays = Vec::new();
        for _ in 0..requests {
            thread::sleep(pause);
            let sent = Instant::now();
            self.send(0)?;
            self.receive()?;
            delays.push(sent.elapsed());
        }
        Ok(delays)
    }
}

/// The routing id of a member.
fn name(member: u32) -> [u8; 5] {
    let [a, b, c, d] = member.to_be_bytes();
    [b'm', a, b, c, d]
}

/// The members: each answers with what it has received.
fn serve(members: usize, pattern: Pattern, hub: &str, answers_to: &str) -> Result<(), Failure> {
    let context = context()?;
    let mut sockets = Vec::new();
    for member in 0..members as u32 {
        let (kind, answers) = match pattern {
            Pattern::Router => (DEALER, None),
            Pattern::Publish => {
                let mut push = Socket::new(&context, SocketType::PUSH, LIMITS)?;
                push.connect(answers_to)?;
                (SUB, Some(push))
            }
        };
        let mut socket = Socket::new(&context, kind, LIMITS)?;
        match pattern {
            Pattern::Router => socket.set_name(&name(member))?,
            Pattern::Publish => socket.subscribe(b"")?,
        }
        socket.connect(hub)?;
        // The greeting, which has the room for a place that `receive` reads.
        answers.as_ref().unwrap_or(&socket).raw().send(&[0; 4][..], 0)?;
        sockets.push((socket, answers));
    }
    let mut message = Message::new();
    let mut items: Vec<PollItem<'_>> =
        sockets.iter().map(|(socket, _)| socket.raw().as_poll_item(POLLIN)).collect();
    loop {
        poll(&mut items, -1)?;
        for (item, (socket, answers)) in items.iter().zip(&sockets) {
            // All that waits: a poll reports readiness, not a number of messages.
            while item.is_readable() && socket.raw().recv(&mut message, DONTWAIT).is_ok() {
                answers.as_ref().unwrap_or(socket).raw().send(&message[..], 0)?;
            }
        }
    }
}
