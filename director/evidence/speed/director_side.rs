//! A session of the director: the hub on a thread, all members on another.

use crate::protection::Protection;
use crate::{Failure, Side, Speed, cpu};
use director::io::{Preconnection, Session};
use director::{Conditions, ModelId, Pattern};
use std::fmt;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

static NEXT_PORT: AtomicU16 = AtomicU16::new(20_000);

#[derive(Debug, Clone, Copy)]
pub struct Setup {
    pub model: ModelId,
    pub members: usize,
    pub protection: Protection,
    /// Configured data rate in bit/s; 0 for none.
    pub rate_bit_s: f64,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protection = self.protection;
        match self.rate_bit_s {
            0.0 => write!(f, "`{}`, {protection}, no rate", self.model),
            rate => write!(f, "`{}`, {protection}, {} Mbit/s", self.model, rate / 1e6),
        }
    }
}

enum Order {
    Run(usize, Duration),
    Delays(usize, Duration),
}

enum Report {
    Ready,
    Speed(Speed),
    Delays(Vec<Duration>),
    Failed(String),
}

/// A hub and its members.
pub struct Group {
    orders: tokio::sync::mpsc::UnboundedSender<Order>,
    reports: Receiver<Report>,
}

impl Group {
    /// Starts the group, and waits until all have joined.
    pub fn start(setup: Setup, payload: usize) -> Result<Self, Failure> {
        let ports = setup.members as u16 + 1;
        // Other ports for each group: sockets of earlier groups are open until the end.
        let first = NEXT_PORT.fetch_add(ports, Relaxed);
        let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        let (hub, members) = (at(first), (first + 1..first + ports).map(at).collect::<Vec<_>>());
        let (sender, reports) = channel();
        let (orders, receiver) = tokio::sync::mpsc::unbounded_channel();
        let new = move |security| {
            // A group for each, so that groups do not receive one another's frames.
            let [high, low] = first.to_be_bytes();
            let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, high, low), 5_777);
            Preconnection::new(Pattern::PublishCollect, security).group(group)
        };
        let own = members.clone();
        thread::Builder::new().name("members".into()).spawn(move || {
            let Ok(runtime) = runtime() else { return };
            runtime.block_on(async {
                for (number, member) in own.into_iter().enumerate() {
                    let security = setup.protection.of_member(number);
                    let mut listener = new(security).listen(member, hub).expect("a member");
                    tokio::spawn(async move {
                        while let Some(request) = listener.next().await {
                            let answer = request.message.clone();
                            request.reply(&answer);
                        }
                    });
                }
                std::future::pending::<()>().await;
            });
        })?;
        thread::Builder::new().name("hub".into()).spawn(move || {
            let Ok(runtime) = runtime() else { return };
            let assumed = Conditions {
                payload: payload as f64,
                group: setup.members as f64,
                rate_bit_s: setup.rate_bit_s,
                ..Conditions::default()
            };
            let begin = || {
                let session = new(setup.protection.of_hub(setup.members));
                let session = session.signed(setup.protection == Protection::Signed);
                session.models(&[setup.model]).assume(assumed).initiate(hub, &members)
            };
            let served = runtime.block_on(async {
                let session = begin().map_err(|error| error.to_string())?;
                serve(&session, payload, receiver, &sender).await
            });
            let _ = served.map_err(|why| sender.send(Report::Failed(why)));
        })?;
        match reports.recv()? {
            Report::Ready => Ok(Self { orders, reports }),
            Report::Failed(why) => Err(why.into()),
            _ => Err("unexpected report".into()),
        }
    }

    fn order(&mut self, order: Order) -> Result<Report, Failure> {
        self.orders.send(order)?;
        match self.reports.recv()? {
            Report::Failed(why) => Err(why.into()),
            report => Ok(report),
        }
    }
}

impl Side for Group {
    fn run(&mut self, window: usize, time: Duration) -> Result<Speed, Failure> {
        match self.order(Order::Run(window, time))? {
            Report::Speed(speed) => Ok(speed),
            _ => Err("unexpected report".into()),
        }
    }

    fn delays(&mut self, requests: usize, pause: Duration) -> Result<Vec<Duration>, Failure> {
        match self.order(Order::Delays(requests, pause))? {
            Report::Delays(delays) => Ok(delays),
            _ => Err("unexpected report".into()),
        }
    }
}

fn runtime() -> std::io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

async fn serve(
    session: &Session,
    payload: usize,
    mut orders: tokio::sync::mpsc::UnboundedReceiver<Order>,
    reports: &Sender<Report>,
) -> Result<(), String> {
    if !session.ready(Duration::from_secs(60)).await {
        return Err("not all members have joined".into());
    }
    let _ = reports.send(Report::Ready);
    while let Some(order) = orders.recv().await {
        let report = match order {
            Order::Run(window, time) => Report::Speed(run(session, payload, window, time).await?),
            Order::Delays(requests, pause) => {
                Report::Delays(delays(session, payload, requests, pause).await?)
            }
        };
        let _ = reports.send(report);
    }
    Ok(())
}

async fn run(
    session: &Session,
    payload: usize,
    window: usize,
    time: Duration,
) -> Result<Speed, String> {
    let (began, busy) = (Instant::now(), cpu());
    let open = (0..window).map(|_| {
        let session = session.clone();
        tokio::spawn(async move {
            let message = vec![7; payload];
            let mut answers = 0;
            while began.elapsed() < time {
                answers +=
                    session.collect(&message).await.map_err(|e| e.to_string())?.answers.len();
            }
            Ok::<usize, String>(answers)
        })
    });
    let mut answers = 0;
    for task in open.collect::<Vec<_>>() {
        answers += task.await.map_err(|error| error.to_string())??;
    }
    Ok(Speed {
        answers_s: answers as f64 / began.elapsed().as_secs_f64(),
        cpu_us: (cpu() - busy).as_secs_f64() * 1e6 / answers as f64,
    })
}

async fn delays(
    session: &Session,
    payload: usize,
    requests: usize,
    pause: Duration,
) -> Result<Vec<Duration>, String> {
    let message = vec![7; payload];
    let mut delays = Vec::new();
    for _ in 0..requests {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        let sent = Instant::now();
        let answer = session.request(0, &message).await.map_err(|error| error.to_string())?;
        delays.extend(answer.map(|_| sent.elapsed()));
    }
    Ok(delays)
}
