use super::{collect, expected, workloads};
use crate::bed::jobs::{Job, Role};
use crate::programs::jobs;
use crate::test_plan::plan;
use experiment::{Mqtt, Plan};
use measure::{ClientRow, Message, MessageTable};
use record::spec::{MqttSpec, Spec};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use units::Instant;

const START: Instant = Instant::from_ns(1_000);

fn planned(pattern: &str) -> Plan {
    let dir = tempfile::tempdir().unwrap();
    let payload = dir.path().join("payload");
    fs::write(&payload, [b'x'; 20]).unwrap();
    let payload = payload.display();
    plan(&format!(
        "experiment: e
nodes: {{broker: {{count: 1}}, meter: {{count: 3}}, sink: {{count: 3}}}}
networks: {{air: {{attach: [broker, meter, sink], subnet: 10.0.0.0/24}}}}
workloads:
  - command: {{on: broker, run: ['true']}}
  - mqtt: {{name: m, broker: broker, publishers: meter, subscribers: {pattern},
      qos: 1, payload: {payload}, rate: 10/s}}
duration: 2 s
"
    ))
}

fn mqtt(plan: &Plan) -> (usize, &Mqtt) {
    workloads(plan).next().unwrap()
}

/// The clients' programs, with their files in `dir`.
fn clients(plan: &Plan, dir: &Path) -> Vec<Job> {
    let jobs = jobs(plan, Path::new("w"), dir, dir).unwrap();
    jobs.into_iter().filter(|job| job.role == Role::Mqtt).collect()
}

fn spec(job: &Job) -> MqttSpec {
    MqttSpec::parse(&fs::read_to_string(&job.files.spec).unwrap()).unwrap()
}

/// The rows of messages behind one of another workload, and the clients' rows.
fn collected(plan: &Plan, jobs: &[Job]) -> (Vec<Message>, Vec<ClientRow>) {
    let (number, mqtt) = mqtt(plan);
    let mut table = MessageTable::new(Path::new("/nowhere"));
    table.push(Message::default());
    let clients = collect(plan, number, mqtt, jobs, START, &mut table).unwrap();
    let mut rows: Vec<_> = table.iter().map(Result::unwrap).collect();
    assert_eq!(rows.remove(0), Message::default(), "of another workload");
    (rows, clients)
}

const PATTERNS: [&str; 2] = ["sink-1, pattern: many-to-one", "sink, pattern: pairs"];

#[test]
fn each_message_is_in_the_schedule_of_one_client_and_expected_by_one() {
    for pattern in PATTERNS {
        let (plan, dir) = (planned(pattern), tempfile::tempdir().unwrap());
        let specs: Vec<MqttSpec> = clients(&plan, dir.path()).iter().map(spec).collect();
        let scheduled: Vec<u64> =
            specs.iter().flat_map(|spec| &spec.schedule).map(|(message, _)| *message).collect();
        let distinct: BTreeSet<u64> = scheduled.iter().copied().collect();
        assert_eq!(distinct, (0..expected(&plan)).collect(), "{pattern}");
        assert_eq!(scheduled.len(), distinct.len(), "none is sent twice");
        let awaited: Vec<u64> = specs.iter().flat_map(|spec| spec.expected.clone()).collect();
        assert_eq!(awaited.len(), distinct.len(), "none is expected twice");
        assert_eq!(BTreeSet::from_iter(awaited), distinct, "{pattern}");
        for spec in &specs {
            assert!(spec.schedule.is_sorted_by_key(|(_, at)| *at), "{pattern}");
            assert_eq!(spec.schedule.is_empty(), spec.publish.is_none(), "{pattern}");
            assert_eq!(spec.expected.is_empty(), spec.subscribe.is_none(), "{pattern}");
            assert_eq!(spec.host, "10.0.0.1", "without a certificate, the address");
        }
        let names: BTreeSet<_> = specs.iter().map(|spec| spec.client.clone()).collect();
        assert_eq!(names.len(), specs.len(), "a broker disconnects the other client of a name");
    }
}

#[test]
fn a_client_that_wrote_nothing_has_a_row_and_its_messages_are_unsent() {
    let (plan, dir) = (planned(PATTERNS[1]), tempfile::tempdir().unwrap());
    let jobs = clients(&plan, dir.path());
    let (rows, clients) = collected(&plan, &jobs);
    assert_eq!(rows.len() as u64, expected(&plan));
    assert!(rows.iter().all(|row| row.sent_ns.is_none() && row.one_way));
    assert!(rows.is_sorted_by_key(|row| (row.message, row.intended_ns)));
    assert_eq!(clients.len(), 6);
    assert!(clients.iter().all(|row| row.connected_ns.is_none() && row.connections == 0));
    assert!(clients.iter().all(|row| row.publishes != row.subscribes), "{clients:?}");
}

#[test]
fn events_count_only_at_the_clients_that_can_see_them() {
    let (plan, dir) = (planned(PATTERNS[0]), tempfile::tempdir().unwrap());
    let jobs = clients(&plan, dir.path());
    let (blank, _) = collected(&plan, &jobs);
    let first = &blank[0];
    let of = |name: &str| jobs.iter().find(|job| job.name == name).unwrap();
    let stranger = blank.iter().find(|row| row.sender != first.sender).unwrap();
    let head = "event,message,peer,time_ns,intended_ns,bytes\n";
    let write = |name: &str, lines: &str| {
        fs::write(&of(name).files.events, format!("{head}{lines}")).unwrap();
    };
    // A publisher also claims a receipt, and a message of another one.
    let other = stranger.message;
    write(
        &first.sender,
        &format!(
            "connected,0,b,1100,,0\nsent,0,b,1200,1000,20\nacknowledged,0,b,1300,,20\n\
             sent,0,b,1400,,20\ndisconnected,0,b,1500,,0\nconnected,0,b,1600,,0\n\
             received,0,b,1700,,20\nsent,{other},b,1800,,20\nsent,99999999,b,1,,20\n"
        ),
    );
    write(
        "sink-1",
        "received,0,b,1250,,20\nduplicate,0,b,1260,,20\nsent,0,b,1,,20\nreceived,1,b,1",
    );
    let (rows, clients) = collected(&plan, &jobs);
    let row = &rows[0];
    let times = (row.sent_ns, row.acknowledged_ns, row.received_ns, row.duplicates);
    assert_eq!(times, (Some(200), Some(300), Some(250), 1), "the first of each");
    for (row, blank) in rows.iter().zip(&blank).skip(1) {
        assert_eq!(row, blank);
    }
    let client = clients.iter().find(|row| *row.client == *first.sender).unwrap();
    let found = (client.connected_ns, client.connections, client.lost);
    assert_eq!(found, (Some(100), 2, 1));
}

#[test]
fn a_damaged_file_names_its_client() {
    let (plan, dir) = (planned(PATTERNS[0]), tempfile::tempdir().unwrap());
    let jobs = clients(&plan, dir.path());
    fs::write(&jobs[1].files.events, "event,message\nsent,many\n").unwrap();
    let (number, mqtt) = mqtt(&plan);
    let mut table = MessageTable::new(Path::new("/nowhere"));
    let error = collect(&plan, number, mqtt, &jobs, START, &mut table).unwrap_err().to_string();
    assert!(error.contains(&jobs[1].name), "{error}");
}
