//! A model of the handshake and of delivery, checked in all states that it can reach: whatever was
//! sent can arrive at any time, any number of times and in any order, or never; both ends restart;
//! someone has recorded an earlier session and makes members begin handshakes.

use stateright::{Checker, Model, Property};
use std::collections::BTreeSet;

/// The keys of a handshake: the hello that began it and the session of the hub that answered.
type Key = (u8, u8);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Datagram {
    Hello(u8),
    Welcome(Key),
    /// An invitation, with its count.
    Ask(Key, u8),
    Ready(Key, u8),
    /// A message of a session.
    Data(u8, u8),
    Answer(Key, u8),
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Hub {
    session: u8,
    /// Handshakes without the member's proof, oldest first.
    pending: Vec<Key>,
    current: Option<Key>,
    previous: Option<Key>,
    /// Hellos of former handshakes.
    known: BTreeSet<u8>,
    /// Count of the last control message under the current keys, and of those to the member.
    received: u8,
    asked: u8,
    sent: u8,
    /// Accepted answers: the message and the keys.
    answers: Vec<(u8, Key)>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct Member {
    start: u8,
    open: Option<u8>,
    complete: Option<Key>,
    joined: Option<Key>,
    received: u8,
    sent: u8,
    delivered: BTreeSet<u8>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
struct State {
    hub: Hub,
    member: Member,
    /// All that was ever sent.
    sent: BTreeSet<Datagram>,
    /// The start that sent each hello.
    owners: Vec<u8>,
    /// Deliveries: start, session, message.
    delivered: Vec<(u8, u8, u8)>,
    /// Whether an end went back to keys or a session of before.
    went_back: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Arrive(Datagram),
    /// A member begins a handshake: of itself, or because of a forged announcement.
    Hello,
    Ask,
    Send,
    RestartHub,
    RestartMember,
}

/// The limits of the model, and whether a proof drops all other handshakes, as it once did.
struct Session {
    hellos: usize,
    starts: u8,
    sessions: u8,
    drops_later: bool,
}

impl State {
    fn owner(&self, key: Key) -> u8 {
        self.owners[usize::from(key.0)]
    }

    fn hub_hears(&mut self, datagram: Datagram) {
        let hub = &mut self.hub;
        match datagram {
            Datagram::Hello(hello) => {
                let key = (hello, hub.session);
                let own = hub.current.is_some_and(|current| current.0 == hello);
                if hub.known.contains(&hello) || own {
                    return;
                }
                if !hub.pending.contains(&key) {
                    hub.pending.push(key);
                }
                self.sent.extend([Datagram::Welcome(key), Datagram::Ask(key, 1)]);
            }
            Datagram::Ready(key, count) => {
                let count = if self.proves(key) { count } else { 0 };
                self.hub.received = self.hub.received.max(count);
            }
            Datagram::Answer(key, message) => {
                let known = self.proves(key) || self.hub.previous == Some(key);
                let hub = &mut self.hub;
                let open = message <= hub.sent && !hub.answers.iter().any(|(n, _)| *n == message);
                if known && open {
                    hub.answers.push((message, key));
                }
            }
            _ => {}
        }
    }

    /// Whether these are the member's keys; takes them into use if they are new.
    fn proves(&mut self, key: Key) -> bool {
        let Some(at) = self.hub.pending.iter().position(|pending| *pending == key) else {
            return self.hub.current == Some(key);
        };
        let before = self.hub.current;
        self.went_back |= before.is_some_and(|before| self.owner(before) > self.owner(key));
        let hub = &mut self.hub;
        let later = hub.pending.split_off(at + 1);
        let over = std::mem::replace(&mut hub.pending, later);
        hub.known.extend(over.iter().map(|(hello, _)| *hello));
        (hub.previous, hub.current) = (before, Some(key));
        (hub.received, hub.asked) = (0, 1);
        true
    }

    fn member_hears(&mut self, datagram: Datagram) {
        let member = &mut self.member;
        match datagram {
            Datagram::Welcome(key) if member.open == Some(key.0) => {
                member.open = None;
                if member.joined.is_none_or(|joined| joined.1 != key.1) {
                    member.complete = Some(key);
                }
            }
            Datagram::Ask(key, count) if member.complete == Some(key) => {
                self.went_back |= member.joined.is_some_and(|joined| joined.1 > key.1);
                (member.complete, member.joined) = (None, Some(key));
                (member.received, member.sent) = (count, 1);
                member.delivered.clear();
                self.sent.insert(Datagram::Ready(key, 1));
            }
            Datagram::Ask(key, count) if member.joined == Some(key) && count > member.received => {
                member.received = count;
                member.sent += 1;
                self.sent.insert(Datagram::Ready(key, member.sent));
            }
            Datagram::Data(session, message) => {
                let Some(key) = member.joined.filter(|joined| joined.1 == session) else { return };
                if member.delivered.insert(message) {
                    self.delivered.push((member.start, session, message));
                }
                self.sent.insert(Datagram::Answer(key, message));
            }
            _ => {}
        }
    }
}

impl Model for Session {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        // All of session 0, between the hub and start 0 of the member, is recorded.
        let key = (0, 0);
        let sent = [
            Datagram::Hello(0),
            Datagram::Welcome(key),
            Datagram::Ask(key, 1),
            Datagram::Ready(key, 1),
            Datagram::Data(0, 1),
            Datagram::Answer(key, 1),
        ];
        vec![State {
            hub: Hub { session: 1, ..Hub::default() },
            member: Member { start: 1, ..Member::default() },
            sent: sent.into_iter().collect(),
            owners: vec![0],
            ..State::default()
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.extend(state.sent.iter().copied().map(Action::Arrive));
        actions.extend([Action::Hello, Action::Ask, Action::Send]);
        actions.extend([Action::RestartHub, Action::RestartMember]);
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Arrive(datagram) => {
                state.hub_hears(datagram);
                state.member_hears(datagram);
                if self.drops_later && state.hub.current != last.hub.current {
                    let later = std::mem::take(&mut state.hub.pending);
                    state.hub.known.extend(later.iter().map(|(hello, _)| *hello));
                }
            }
            Action::Hello if state.member.open.is_none() && state.owners.len() <= self.hellos => {
                let hello = state.owners.len() as u8;
                state.owners.push(state.member.start);
                state.member.open = Some(hello);
                state.sent.insert(Datagram::Hello(hello));
            }
            Action::Ask if state.hub.asked == 1 => {
                state.hub.asked += 1;
                let asked = state.hub.asked;
                state.sent.extend(state.hub.current.map(|key| Datagram::Ask(key, asked)));
            }
            Action::Send if state.hub.sent == 0 => {
                state.hub.sent = 1;
                state.sent.insert(Datagram::Data(state.hub.session, 1));
            }
            Action::RestartHub if state.hub.session < self.sessions => {
                state.hub = Hub { session: state.hub.session + 1, ..Hub::default() };
            }
            Action::RestartMember if state.member.start < self.starts => {
                state.member = Member { start: state.member.start + 1, ..Member::default() };
            }
            _ => return None,
        }
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a start delivers a message once", |_, state: &State| {
                let all: BTreeSet<_> = state.delivered.iter().collect();
                all.len() == state.delivered.len()
            }),
            Property::always("nothing recorded earlier is delivered", |_, state: &State| {
                state.delivered.iter().all(|(start, session, _)| *start > 0 && *session > 0)
            }),
            Property::always("who answers has the message", |_, state: &State| {
                state.hub.answers.iter().all(|(message, key)| {
                    state.delivered.contains(&(state.owner(*key), state.hub.session, *message))
                })
            }),
            Property::always("a message has one answer", |_, state: &State| {
                state.hub.answers.len() <= usize::from(state.hub.sent)
            }),
            Property::always("no end goes back to former keys", |_, state: &State| {
                !state.went_back
            }),
            Property::always(
                "the hub knows the keys of a member of its session",
                |_, state: &State| {
                    let live = state.member.joined.filter(|key| key.1 == state.hub.session);
                    live.is_none_or(|key| {
                        state.hub.current == Some(key) || state.hub.pending.contains(&key)
                    })
                },
            ),
            Property::sometimes(
                "a restarted member answers a restarted hub",
                |_, state: &State| {
                    let last = |key: &Key| key.1 == 2 && state.owner(*key) == 2;
                    state.hub.answers.iter().any(|(_, key)| last(key))
                },
            ),
        ]
    }
}

#[test]
fn no_order_of_events_breaks_a_session() {
    // With three hellos there are 1,335,927 states, in which all holds too.
    let session = Session { hellos: 2, starts: 2, sessions: 2, drops_later: false };
    let checker = session.checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
    assert!(checker.unique_state_count() > 1_000);
}

/// The model finds a fault that an earlier draft had: a late proof of a former start made the hub
/// forget the handshake of the present one, which then waited for ever.
#[test]
fn the_model_finds_a_known_fault() {
    let session = Session { hellos: 2, starts: 2, sessions: 1, drops_later: true };
    let checker = session.checker().spawn_bfs().join();
    let found = checker.discovery("the hub knows the keys of a member of its session");
    assert!(found.is_some());
}
