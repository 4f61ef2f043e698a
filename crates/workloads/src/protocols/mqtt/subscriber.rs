//! The sink of an exchange over MQTT: subscribes at each broker and records the payloads.

use super::exchange::{Broker, KEEP_ALIVE_CHECK, no_broker, topic};
use crate::error::Error;
use crate::exchange::body::Body;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::log::Receipts;
use crate::exchange::protocol::Server;
use crate::exchange::watch::Watch;
use record::MqttChoice;
use record::control::Status;
use record::spec::ExchangeSpec;
use stacks::mqtt::{MIN_REFUSAL, Session, SessionEvent};
use units::{Instant, Span};

/// Time before a subscriber reconnects.
const RETRY_AFTER: Span = Span::from_ms(200);

pub(crate) fn server(spec: &ExchangeSpec, options: &MqttChoice) -> Result<Box<dyn Server>, Error> {
    if spec.brokers.is_empty() {
        return Err(no_broker(spec));
    }
    let brokers = spec.brokers.iter().map(|broker| {
        let broker = Broker::of(spec, options, broker);
        Ok(Subscription {
            session: Session::new(&broker.options)?,
            broker,
            connect_at: Some(Instant::START),
            keep_alive_at: Instant::START,
            answers: 0,
            warned: false,
        })
    });
    Ok(Box::new(Subscriber {
        qos: options.qos,
        body: Body::new(spec.seed, spec.longest()),
        brokers: brokers.collect::<Result<_, Error>>()?,
        spec: spec.clone(),
        received: 0,
    }))
}

struct Subscriber {
    spec: ExchangeSpec,
    qos: u8,
    body: Body,
    brokers: Vec<Subscription>,
    /// Payloads received so far.
    received: u64,
}

/// A session with one of the brokers.
struct Subscription {
    broker: Broker,
    session: Session,
    /// When to connect; none while connecting or connected.
    connect_at: Option<Instant>,
    keep_alive_at: Instant,
    /// Number of SUBACKs received.
    answers: usize,
    warned: bool,
}

impl Server for Subscriber {
    fn serve(&mut self, watch: &mut Watch<'_>, receipts: &mut Receipts) -> Result<(), Error> {
        loop {
            let mut wake = clock::now() + KEEP_ALIVE_CHECK;
            let mut set = Vec::new();
            for broker in &mut self.brokers {
                broker.connect_if_due();
                broker.check_keep_alive();
                wake = broker.connect_at.map_or(wake, |at| wake.min(at));
                let out = if broker.session.has_output() { libc::POLLOUT } else { 0 };
                let fd = broker.session.descriptor().unwrap_or(-1);
                set.push(libc::pollfd { fd, events: libc::POLLIN | out, revents: 0 });
            }
            if watch.wait(&mut set, Some(wake)).is_err() {
                break;
            }
            let before = self.received;
            for (place, seen) in set.iter().enumerate() {
                self.brokers[place].session.transfer(seen.revents);
                self.handle_events(place, receipts)?;
            }
            // One report for all messages of a turn.
            if self.received > before {
                watch.send_status(&Status::Received { messages: self.received })?;
            }
            let subscribed = |broker: &Subscription| broker.answers >= self.spec.peers.len();
            if self.brokers.iter().all(subscribed) && watch.ready()? {
                watch.send_status(&Status::Received { messages: self.received })?;
            }
        }
        for broker in &mut self.brokers {
            broker.session.disconnect();
        }
        Ok(())
    }
}

impl Subscriber {
    fn handle_events(&mut self, place: usize, receipts: &mut Receipts) -> Result<(), Error> {
        let Self { spec, qos, body, brokers, received } = self;
        let broker = &mut brokers[place];
        for event in broker.session.take() {
            match event {
                SessionEvent::Connack(0) => {
                    for peer in &spec.peers {
                        broker.session.subscribe(&topic(spec, peer.address), *qos)?;
                    }
                }
                SessionEvent::Connack(code) => {
                    broker.schedule_retry(&format!(
                        "the broker refused: {}",
                        broker.session.answer(code)
                    ));
                }
                SessionEvent::Closed(code) => {
                    let reason = broker.session.reason(code);
                    broker.schedule_retry(&reason);
                }
                SessionEvent::Suback(levels) => {
                    // SUBACKs arrive in the order of the SUBSCRIBEs.
                    let peer = spec.peers.get(broker.answers).map_or("", |peer| &peer.name);
                    broker.answers += 1;
                    if let Some(code) = levels.iter().find(|level| **level >= MIN_REFUSAL) {
                        let why = format!(
                            "broker {}: subscription refused, code {code}",
                            broker.broker.name
                        );
                        let failure = Failure::of(Reason::Rejected, why);
                        receipts.refuse(peer, &failure, clock::now())?;
                    }
                }
                SessionEvent::Message { topic: name, payload, at } => {
                    let from = spec.peers.iter().find(|peer| topic(spec, peer.address) == name);
                    if let (Some(peer), Some(number)) = (from, body.number(&payload)) {
                        receipts.note(&peer.name, number, payload.len(), Instant::from_ns(at))?;
                        *received += 1;
                    }
                }
                SessionEvent::Acknowledged { .. } => {}
            }
        }
        Ok(())
    }
}

impl Subscription {
    fn connect_if_due(&mut self) {
        let now = clock::now();
        if self.connect_at.take_if(|at| *at <= now).is_none() {
            return;
        }
        // A new connection subscribes again.
        self.answers = 0;
        if let Err(code) = self.session.connect() {
            let reason = self.session.reason(code);
            self.schedule_retry(&reason);
        }
    }

    fn schedule_retry(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.warned, true) {
            let broker = &self.broker.name;
            crate::log!("no connection to the broker {broker}: {reason}");
        }
        self.connect_at = Some(clock::now() + RETRY_AFTER);
    }

    fn check_keep_alive(&mut self) {
        let now = clock::now();
        if now >= self.keep_alive_at && self.session.descriptor().is_some() {
            self.session.check_keep_alive();
            self.keep_alive_at = now + KEEP_ALIVE_CHECK;
        }
    }
}
