//! The test vectors of docs/director-wire.md, and a second reader of them in Python, which also
//! takes part in a session. `UPDATE_GOLDEN=1` writes the vectors.

#![recursion_limit = "256"]

use director::arq::{self, Complete, Datagram};
use director::bundle::Bundle;
use director::envelope::{
    Echo, FromMember, Invitation, lifetime, seal_data, seal_member, seal_probe, seal_stored,
    seal_topic,
};
use director::fec::sign_by_member;
use director::handshake::{Initiator, Welcome, announcement, respond};
use director::keys::{Party, Psk, Root, Scope, SessionId, Use};
use director::replay::Signer;
use director::signature::Authority;
use director::{ModelId, Models, Span, StoredNumber};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Lifetimes of messages that have the same value when they were read back.
const LIFETIMES_MS: [Option<u64>; 5] = [None, Some(1), Some(2_047), Some(60_000), Some(86_441_984)];

const KEY: &[u8] = b"sixteen bytes of key and more";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Bytes that count up from `first`.
fn bytes<const N: usize>(first: u8) -> [u8; N] {
    std::array::from_fn(|at| first.wrapping_add(at as u8))
}

fn interop(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../interop").join(file)
}

fn vectors() -> Value {
    let psk = Psk::new(KEY).unwrap();
    let (own, other) = (bytes::<32>(0x20), bytes::<32>(0x60));
    let welcome = Welcome {
        session: bytes(0xa0),
        member: 299,
        members: 300,
        group: "239.1.2.3:5701".parse().unwrap(),
        answered: true,
        reports: true,
        store: None,
    };
    let mut member = Initiator::new(Some(&psk), own, None);
    let named = Initiator::new(Some(&psk), own, Some(&welcome.session));
    let hello = member.hello().to_vec();
    let storing = Welcome { store: Some(bytes(0xe0)), ..welcome };
    let storing = respond(Some(&psk), other, &hello, &storing).unwrap();
    let accepted = respond(Some(&psk), other, &hello, &welcome).unwrap();
    let (pair, received) = member.finish(&accepted.message).unwrap();
    assert_eq!(received, welcome);
    let plain_hello = Initiator::new(None, own, None).hello().to_vec();
    let plain = respond(None, other, &plain_hello, &welcome).unwrap();
    // Without security the answer is the hello's number and the same body in clear text.
    let body = &plain.message[1 + 16..];
    let handshake = json!({
        "pre_shared_key": hex(KEY),
        "psk": hex(psk.bytes()),
        "member_ephemeral": hex(&own),
        "hub_ephemeral": hex(&other),
        "hello": hex(&hello),
        "named_hello": hex(named.hello()),
        "welcome_body": hex(body),
        "welcome": hex(&accepted.message),
        "storing_welcome": hex(&storing.message),
        "store": hex(&bytes::<8>(0xe0)),
        "insecure_hello": hex(&plain_hello),
        "insecure_welcome": hex(&plain.message),
        "session": hex(&welcome.session),
        "member": 299,
        "members": 300,
        "group": "239.1.2.3:5701",
        "answered": true,
        "reports": true,
        "announcement": hex(&announcement(&welcome.session)),
        "pair_hub_control_key": hex(&pair.seed(&Scope::new(Use::Control, 0, Party::Hub))),
    });
    let envelopes = merge(envelopes(&pair, welcome.session), stored(welcome.session));
    merge(merge(handshake, envelopes), merge(counted(&pair), signed(&pair, welcome.session)))
}

/// A frame of a member, after 70,000 others, and a short one after it.
fn counted(pair: &Root) -> Value {
    let scope = Scope::new(Use::Frame, 70_000, Party::Member(299));
    let (mut signer, mut frame) = (Signer::new(pair.keys(scope)), bytes::<12>(0x80).to_vec());
    (0..70_000).for_each(|_| signer.sign(&mut Vec::new()));
    signer.sign(&mut frame);
    // Symbol 5 of 8 of the answer to a message whose number ends with 0xabcd.
    let place = (299_u16 << 7 | 5).to_be_bytes();
    let answer = [&[0xe7, 0xab, 0xcd][..], &place, &bytes::<10>(0x40)].concat();
    let mut short = answer.clone();
    sign_by_member(&mut signer, &mut short);
    json!({
        "counted_frame": hex(&frame),
        "counted_frame_count": 70_000,
        "short_frame": hex(&answer),
        "short_frame_count": 70_001,
        "short_frame_signed": hex(&short),
    })
}

fn merge(mut one: Value, other: Value) -> Value {
    if let (Some(one), Value::Object(other)) = (one.as_object_mut(), other) {
        one.extend(other);
    }
    one
}

fn invitation() -> Invitation {
    Invitation {
        epoch: 70_000,
        secret: bytes(0xc0),
        model: Some(ModelId::MulticastFec),
        datagram: 85,
        rate_bit_s: 250_000.0,
        loss: 76,
        round_trip: Span::from_ms(60),
        next: 17,
        estimated: true,
        apart: false,
        probes: false,
        bundles: true,
        signer: None,
    }
}

/// Envelopes under the keys of a handshake and of a group.
fn envelopes(pair: &Root, session: SessionId) -> Value {
    let invitation = invitation();
    let epoch = invitation.epoch;
    let group = Root::new(&invitation.secret, session);
    let scope = |purpose| Scope::new(purpose, epoch, Party::Hub);
    let signed = |mut frame: Vec<u8>| {
        group.keys(scope(Use::Frame)).sign(&mut frame);
        hex(&frame)
    };
    let (frame, bundle) = (bytes::<12>(0x80), bundle());
    let of_member = |what: &FromMember| hex(&seal_member(pair, epoch, 299, what));
    json!({
        "invitation": hex(&invitation.seal(pair, 5, 0)),
        "invitation_count": 5,
        "invitation_epoch": epoch,
        "invitation_secret": hex(&invitation.secret),
        "invitation_model": ModelId::MulticastFec.wire(),
        "invitation_datagram": 85,
        "invitation_rate_bit_s": 250_000.0,
        "invitation_loss": 76,
        "invitation_round_trip_us": 60_000,
        "invitation_next": 17,
        "invitation_estimated": true,
        "invitation_apart": false,
        "invitation_probes": false,
        "invitation_bundles": true,
        "group_hub_message_key": hex(&group.seed(&scope(Use::Message))),
        "data": hex(&seal_data(&group, epoch, 17, None, b"0.21 a kWh")),
        "data_number": 17,
        "data_message": hex(b"0.21 a kWh"),
        "lifetimes": LIFETIMES_MS.map(lifetime_of),
        "chosen": hex(&seal_data(&group, epoch, 18, Some(&[3, 299]), b"0.22 a kWh")),
        "chosen_opened": [18, [3, 299], hex(b"0.22 a kWh")],
        "chosen_near": hex(&seal_data(&group, epoch, 19, Some(&[0, 1, 9]), b"0.23 a kWh")),
        "chosen_near_opened": [19, [0, 1, 9], hex(b"0.23 a kWh")],
        "topic": hex(&seal_topic(&group, epoch, 20, &[3, 299], "prices/a", b"0.24 a kWh")),
        "topic_opened": [20, [3, 299], "prices/a", hex(b"0.24 a kWh")],
        "probe": hex(&seal_probe(&group, epoch, 3, 299)),
        "probe_opened": [3, 299],
        "answer": of_member(&FromMember::Answer(17, b"17 kWh".to_vec())),
        "answer_opened": [299, 17, hex(b"17 kWh")],
        "acknowledge": of_member(&FromMember::Acknowledge(17)),
        "acknowledge_opened": [299, 17, ""],
        "ready": of_member(&FromMember::Ready(1, Models::from_bits(0x0601), Echo::of_invitation(7))),
        "ready_opened": [299, 1, "06010007"],
        "ready_bundles": of_member(&FromMember::Ready(
            4,
            Models::from_bits(0x0601).with_bundles(),
            Echo::of_invitation(8),
        )),
        "ready_bundles_opened": [299, 4, "86010008"],
        "cannot": of_member(&FromMember::Cannot(2, Models::from_bits(0x0601))),
        "cannot_opened": [299, 2, "0601"],
        "alive": of_member(&FromMember::Alive(3, Models::from_bits(0x0601), 1_152)),
        "alive_opened": [299, 3, "06010480"],
        "frame": hex(&frame),
        "frame_signed": signed(frame.to_vec()),
        "bundle": hex(&bundle),
        "bundle_parts": [
            ["chunk", 17, 0, 0, true, 0, 3, hex(b"17 kWh")],
            ["chunk", 18, 1, 2, false, 2, 0, hex(b"18 kWh")],
            ["missing", 15, 1, false, [0, 2, 8]],
            ["whole", [[12, 0, false], [13, 15, true]]],
        ],
        "bundle_signed": signed(bundle.clone()),
    })
}

/// A lifetime and its encoding.
fn lifetime_of(ms: Option<u64>) -> Value {
    json!([ms, hex(&lifetime::encode(ms.map(Span::from_ms)))])
}

/// A message of the hub's storage, in the epoch of the other envelopes.
fn stored(session: SessionId) -> Value {
    let group = Root::new(&bytes::<32>(0xc0), session);
    let number = StoredNumber { id: 70_000, back: 7 };
    json!({
        "stored": hex(&seal_stored(&group, 70_000, 21, &[3, 299], number, b"0.25 a kWh")),
        "stored_opened": [21, [3, 299], 70_000, 7, hex(b"0.25 a kWh")],
    })
}

/// What a hub that signs sends.
fn signed(pair: &Root, session: SessionId) -> Value {
    let authority = Authority::new(bytes(0x11));
    let signer = authority.public_key();
    let invitation = Invitation { signer, ..invitation() };
    let group = Root::new(&invitation.secret, session).signed(authority);
    json!({
        "signing_seed": hex(&bytes::<32>(0x11)),
        "signed_invitation": hex(&invitation.seal(pair, 6, 0)),
        "signed_invitation_signer": hex(&signer.unwrap()),
        "signed_data": hex(&seal_data(&group, invitation.epoch, 22, None, b"0.26 a kWh")),
        "signed_data_opened": [22, null, hex(b"0.26 a kWh")],
        "signed_topic": hex(&seal_topic(&group, invitation.epoch, 23, &[3], "prices/a", b"0.27")),
        "signed_topic_opened": [23, [3], "prices/a", hex(b"0.27")],
    })
}

/// Chunks and acknowledgements that share a datagram.
fn bundle() -> Vec<u8> {
    let (first, held) = (0, arq::Echo { attempt: 15, held: true });
    let echo = |attempt| arq::Echo { attempt, held: false };
    let parts = [
        Datagram::Chunk {
            message: 17,
            index: 0,
            last: 0,
            asks: true,
            attempt: first,
            echo: 3,
            data: b"17 kWh".to_vec(),
        },
        Datagram::Chunk {
            message: 18,
            index: 1,
            last: 2,
            asks: false,
            attempt: 2,
            echo: 0,
            data: b"18 kWh".to_vec(),
        },
        Datagram::Acknowledge { message: 15, echo: echo(1), received_chunks: vec![0b101, 1] },
        Datagram::Complete(vec![
            Complete { message: 12, echo: echo(first) },
            Complete { message: 13, echo: held },
        ]),
    ];
    let mut bundle = Bundle::new(1_000);
    for part in parts.map(|part| part.encode()) {
        bundle.push(part.len(), |bytes| bytes.extend_from_slice(&part));
    }
    bundle.finish().unwrap_or_default()
}

/// What is on the wire changes only on purpose.
#[test]
fn the_wire_format_has_not_changed() {
    let found = serde_json::to_string_pretty(&vectors()).unwrap() + "\n";
    let path = interop("vectors.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap();
    assert!(found == known, "UPDATE_GOLDEN=1 updates the vectors:\n{found}");
}

/// The reader computes all keys by itself, from the standard library alone.
#[test]
fn a_second_reader_opens_and_makes_the_same_bytes() {
    let script = interop("wire.py");
    let vectors = interop("vectors.json");
    let done = Command::new("python3").arg(script).arg("vectors").arg(vectors).output().unwrap();
    let (out, error) =
        (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success() && out.contains("checks"), "{out} {error}");
}

/// A member in Python joins a hub on sockets, gets messages and answers them.
#[cfg(feature = "io")]
#[tokio::test]
async fn a_second_reader_takes_part_in_a_session() {
    takes_part(false).await;
    takes_part(true).await;
}

#[cfg(feature = "io")]
async fn takes_part(signed: bool) {
    use director::Pattern;
    use director::io::Preconnection;
    use director::session::Security;
    use std::net::{SocketAddr, UdpSocket};
    use std::time::Duration;

    // Two ports that are free now.
    let free = || UdpSocket::bind("127.0.0.1:0").unwrap();
    let (one, other) = (free(), free());
    let address = |socket: &UdpSocket| match socket.local_addr().unwrap() {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(_) => unreachable!(),
    };
    let (hub, member) = (address(&one), address(&other));
    drop((one, other));
    let targets = director::QosTargets { deadline: Some(Span::from_s(120)), ..Default::default() };
    let session = Preconnection::new(Pattern::RequestResponse, Security::Keys(vec![KEY.to_vec()]))
        .models(&[ModelId::UdpRequestResponse])
        .targets(targets)
        .signed(signed)
        .initiate(hub, &[member])
        .unwrap();
    let mut python = Command::new("python3")
        .arg(interop("wire.py"))
        .args(["member", &hex(KEY), &member.port().to_string(), &hub.port().to_string(), "3"])
        .spawn()
        .unwrap();
    assert!(session.ready(Duration::from_secs(120)).await);
    for message in [&b"first"[..], b"second", b"third"] {
        let mut reversed = message.to_vec();
        reversed.reverse();
        assert_eq!(session.request(0, message).await.unwrap(), Some(reversed));
    }
    let status = tokio::task::spawn_blocking(move || python.wait()).await.unwrap().unwrap();
    assert!(status.success());
}
