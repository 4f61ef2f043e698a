//! The director in nodes: as an interaction model, and in user programs.

mod common;

use common::{Bed, json};
use std::path::{Path, PathBuf};

const NETWORK: &str = "nodes: {utility: {}, meter: {count: 4}}
networks:
  field:
    attach: [utility, meter]
    subnet: 10.0.0.0/24
    mtu: 113 B
    channel: {shared: 250 kbit/s}
    links:
      meter:
        up: {delay: 30 ms, jitter: 5 ms, loss: 30 %}
        down: {delay: 30 ms, jitter: 5 ms, loss: 30 %}
";

#[test]
fn every_meter_has_every_price_and_every_answer_comes_back() {
    let bed = Bed::new();
    let models = "models:
  adaptive: {down: director, up: director, every: 3 s, count: 3, assume_loss: 30 %, assume_round_trip: 60 ms}
  unaware: {down: director, up: director, every: 3 s, count: 3}
  arq: {down: director/udp-arq, up: director/udp-arq, every: 4 s, count: 2}
workloads:
  - interaction: {source: utility, sinks: meter, model: \"${model}\", payload: payload.xml}
matrix: {model: [adaptive, unaware, arq]}
duration: 9 s
drain: 60 s
";
    bed.write("e.yaml", &format!("experiment: prices\n{NETWORK}{models}"));
    // In real time a busy machine decides which frames are lost.
    bed.thingbed(&["run", "e.yaml", "-q", "--clock", "virtual", "--repeat", "3"]).ran(&[]);
    let all = bed.summaries("prices");
    assert_eq!(all.len(), 9);
    for summary in &all {
        let messages = &summary["messages"];
        assert_eq!(messages["loss_pct"], 0.0, "{summary:#}");
        assert_eq!(messages["replies"], messages["sent"]);
        assert_eq!(messages["duplicates"], 0, "{summary:#}");
        // The medium lost a third of the frames, which the application did not notice.
        let lost = summary["links"]["loss_measured_pct"].as_f64().unwrap();
        assert!((20.0..40.0).contains(&lost), "{lost}");
    }
}

/// An example program of the director, which is built with the tests.
fn example(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_BIN_EXE_thingbed")).with_file_name("examples").join(name);
    assert!(path.exists(), "cargo build -p director --examples first: no {}", path.display());
    path
}

#[test]
fn an_application_of_forty_lines_works_in_nodes() {
    let bed = Bed::new();
    bed.write("key", "a secret key, for members only");
    let (hub, member) = (example("director-hub"), example("director-member"));
    let lines = std::fs::read_to_string(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../director/core/examples/member.rs"
    ));
    assert!(lines.unwrap().lines().count() < 40);
    let meters: Vec<String> = (1..=4).map(|n| format!("meter-{n}:5700")).collect();
    let workloads = format!(
        "workloads:
  - command: {{on: meter, background: true, run: [sh, -c, 'exec {} key $THINGBED_NODE:5700 utility:5700']}}
  - command: {{name: hub, on: utility, run: [{}, key, payload.xml, 'utility:5700', '{}']}}
duration: 60 s
",
        member.display(),
        hub.display(),
        meters.join("', '")
    );
    bed.write("e.yaml", &format!("experiment: example\n{NETWORK}{workloads}"));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("example");
    let answer = std::fs::read_dir(folder.join("programs")).unwrap();
    let answer: String =
        answer.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect();
    assert!(
        answer.contains("all members ready: true") && answer.contains("4 of 4 answers in"),
        "{answer}"
    );
    // The operating system reports the maximum packet length.
    assert!(answer.contains("MTU 113 B"), "{answer}");
    assert!(json(&folder.join("summary.json")).is_object());
}

/// Compiles a C example of the director.
fn compile(bed: &Bed, name: &str) -> PathBuf {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../director/c");
    let library = common::director_library();
    let folder = library.parent().unwrap().display();
    let source = format!("{root}/examples/{name}.c");
    let lines = std::fs::read_to_string(&source).unwrap();
    assert!(lines.lines().count() < 40, "{source}");
    let program = bed.path().join(name);
    let built = std::process::Command::new("cc")
        .args([&source, "-Wall", "-Wextra", "-Werror", "-pthread", "-o"])
        .arg(&program)
        .args([&format!("-I{root}/include"), &format!("-L{folder}")])
        .args(["-ldirector_c", &format!("-Wl,-rpath,{folder}")])
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// In Rust, C and Python, in under 40 lines each: five members send readings, and get an update.
#[test]
fn members_send_readings_in_three_languages() {
    let bed = Bed::new();
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/../../director/python");
    let telemetry = format!("{python}/telemetry.py");
    let sources = [
        telemetry.clone(),
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../director/core/examples/telemetry.rs").into(),
    ];
    for source in sources {
        assert!(std::fs::read_to_string(&source).unwrap().lines().count() < 40, "{source}");
    }
    bed.write(
        "e.yaml",
        &format!(
            "experiment: telemetry
nodes: {{node: {{count: 3}}}}
networks: {{field: {{attach: [node], subnet: 10.0.0.0/24}}}}
workloads:
  - command: {{name: rust, on: node-1, run: [{}, '5700']}}
  - command: {{name: c, on: node-2, run: [{}, a key of all the ends, '5700']}}
  - command:
      name: python
      on: node-3
      run: [python3, {telemetry}, a key of all the ends, '5700']
      env: {{PYTHONPATH: {python}, DIRECTOR_LIBRARY: {}}}
duration: 60 s
",
            example("director-telemetry").display(),
            compile(&bed, "telemetry").display(),
            common::director_library().display(),
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let answer = std::fs::read_dir(bed.sweep("telemetry").join("programs")).unwrap();
    let answer: String =
        answer.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect();
    for n in 1..=5 {
        assert!(answer.contains(&format!("meter {n}: Ok(Acknowledged(None))")), "Rust: {answer}");
        assert!(answer.contains(&format!("a reading of member {}", n - 1)), "C: {answer}");
    }
    assert_eq!(answer.matches("5 updated").count(), 2, "Rust and C: {answer}");
    assert_eq!(answer.matches("Outcome.ACKNOWLEDGED").count(), 5, "Python: {answer}");
    assert_eq!(answer.matches("the time is b'noon'").count(), 5, "Python: {answer}");
    assert!(answer.contains("lacking=()"), "Python: {answer}");
}

/// What failed before: member 4,294,967,296 was member 0, a priority of -1 was the lowest one, and ends that
/// no datagram reaches waited for ever.
#[test]
fn mistakes_in_python_are_errors_that_say_what_to_do() {
    let bed = Bed::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    bed.write(
        "e.yaml",
        &format!(
            "experiment: mistakes
nodes: {{node: {{}}, other: {{}}}}
networks: {{field: {{attach: [node, other], subnet: 10.0.0.0/24}}}}
workloads:
  - command:
      on: node
      run: [python3, {root}/crates/thingbed/tests/interop/director_mistakes.py, '5700', {}]
      env: {{PYTHONPATH: {root}/director/python, DIRECTOR_LIBRARY: {}}}
duration: 120 s
",
            bed.path().display(),
            common::director_library().display(),
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let out = std::fs::read_dir(bed.sweep("mistakes").join("programs")).unwrap();
    let out: String =
        out.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect();
    assert!(out.contains("every mistake is an error"), "{out}");
}

#[test]
fn meters_in_c_and_python_answer_a_utility_in_python() {
    let bed = Bed::new();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let library = common::director_library();
    let meter = compile(&bed, "meter");
    for program in ["utility.py", "meter.py"] {
        let text = std::fs::read_to_string(format!("{root}/director/python/{program}")).unwrap();
        assert!(text.lines().count() < 40, "{program}");
    }
    let env =
        format!("{{PYTHONPATH: {root}/director/python, DIRECTOR_LIBRARY: {}}}", library.display());
    let key = "a-key-that-nobody-should-know";
    let workloads = format!(
        "workloads:
  - command: {{on: [meter-1, meter-2], background: true, run: [sh, -c, 'exec {} {key} $THINGBED_NODE:5700 utility:5700']}}
  - command:
      on: [meter-3, meter-4]
      background: true
      run: [sh, -c, 'exec python3 {root}/director/python/meter.py {key} $THINGBED_NODE:5700 utility:5700']
      env: {env}
  - command:
      name: hub
      on: utility
      run: [python3, {root}/director/python/utility.py, {key}, 'utility:5700', 'meter-1:5700', 'meter-2:5700', 'meter-3:5700', 'meter-4:5700']
      env: {env}
duration: 60 s
",
        meter.display(),
    );
    bed.write("e.yaml", &format!("experiment: tongues\n{NETWORK}{workloads}"));
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let answer = std::fs::read_dir(bed.sweep("tongues").join("programs")).unwrap();
    let answer: String =
        answer.filter_map(|file| std::fs::read_to_string(file.unwrap().path()).ok()).collect();
    assert!(answer.contains("all there: True") && answer.contains("4 of 4 answers"), "{answer}");
    assert!(answer.contains("17 kWh") && answer.contains("21 B read"), "{answer}");
}

/// Multicast over a network that stops and resumes forwarding loses no answer; the runs of a fixed
/// model make a performance map.
#[test]
fn multicast_is_held_back_and_runs_become_a_map() {
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        "experiment: blocked
nodes: {utility: {}, meter: {count: 4}}
profiles:
  blocked:
    links: {meter: {up: {delay: 10 ms}, down: {delay: 10 ms}}}
    timetable: [{at: 3 s, multicast: false, lasts: 4 s}]
networks:
  field: {attach: [utility, meter], subnet: 10.0.0.0/24, profile: blocked}
models:
  any: {down: director, up: director, every: 1 s}
  fec: {down: director/multicast-fec, up: director/multicast-fec, every: 1 s}
workloads:
  - interaction: {source: utility, sinks: meter, model: \"${model}\", payload: payload.xml}
matrix: {model: [any, fec]}
duration: 10 s
drain: 20 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let all = bed.summaries("blocked");
    for summary in &all {
        assert_eq!(summary["messages"]["replies"], 40, "{summary:#}");
    }
    let folder = bed.sweep("blocked");
    let folder = folder.to_str().unwrap();
    let map = bed.path().join("map.json");
    let requested = ["map", folder, "--map", map.to_str().unwrap(), "--suspect"];
    // On a busy machine no run may be suitable for a map; then the error says so.
    let answer = bed.thingbed(&requested);
    if all.iter().any(|summary| summary["verdict"]["status"] == "invalid") {
        return;
    }
    answer.ran(&["1 points of 1 models"]);
    let text = std::fs::read_to_string(&map).unwrap();
    let map = director::PerformanceMap::from_json(&text).unwrap();
    let models: Vec<_> = map.models().collect();
    assert_eq!(models, [director::ModelId::MulticastFec]);
    bed.write(
        "none.yaml",
        "experiment: none\nduration: 1 s\nnodes: {a: {}}\nworkloads: [{command: {on: a, run: [\"true\"]}}]\n",
    );
    bed.thingbed(&["run", "none.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("none");
    let requested = ["map", folder.to_str().unwrap(), "--map", "no.json"];
    bed.thingbed(&requested).expect(1, &["uses a model of the director"]);
}

/// Third-party stacks transport the director's messages between nodes: over TCP, PGM multicast, and
/// a broker. A session that may choose has them as well.
#[test]
fn other_stacks_carry_every_price_and_every_answer() {
    let bed = Bed::new();
    bed.write("mosquitto.conf", "listener 1883\nallow_anonymous true\nuser root\n");
    bed.write(
        "e.yaml",
        "experiment: stacks
nodes:
  utility: {}
  meter: {count: 4}
  broker: {run: [mosquitto, -c, mosquitto.conf], ready: {tcp: 1883}}
networks:
  field:
    attach: [utility, meter, broker]
    subnet: 10.0.0.0/24
    channel: {shared: 2 Mbit/s}
    links: {meter: {up: {delay: 10 ms, loss: 2 %}, down: {delay: 10 ms, loss: 2 %}}}
models:
  direct: {down: director/tcp-router-dealer, up: director/tcp-router-dealer}
  tcp: {down: director/tcp-publish-subscribe, up: director/tcp-publish-subscribe}
  pgm: {down: director/pgm-publish-subscribe, up: director/pgm-publish-subscribe}
  mqtt: {down: director/mqtt, up: director/mqtt, broker: broker}
  any:
    down: director
    up: director
    outside: [tcp-router-dealer, tcp-publish-subscribe, pgm-publish-subscribe, mqtt]
    broker: broker
workloads:
  - interaction:
      {source: utility, sinks: meter, model: \"${model}\", payload: payload.xml, every: 0.5 s, count: 8}
matrix: {model: [direct, tcp, pgm, mqtt, any]}
duration: 4 s
drain: 20 s
",
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let all = bed.summaries("stacks");
    assert_eq!(all.len(), 5);
    for summary in &all {
        let messages = &summary["messages"];
        assert_eq!(messages["replies"], 32, "{summary:#}");
        assert_eq!(messages["duplicates"], 0, "{summary:#}");
    }
}
