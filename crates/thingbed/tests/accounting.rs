//! Resource accounting of nodes, and limits that are exceeded.

mod common;

use common::{Bed, comparison, figure};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

/// The rows of a table, each as JSON.
fn rows(path: &Path) -> Vec<Value> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let value = |field: &Field| match field {
        Field::Str(text) => json!(text),
        Field::Double(number) => json!(number),
        Field::ULong(number) => json!(number),
        Field::UInt(number) => json!(number),
        other => panic!("{other:?}"),
    };
    let object = |row: parquet::record::Row| {
        let columns = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        Value::Object(columns.collect())
    };
    reader.get_row_iter(None).unwrap().map(|row| object(row.unwrap())).collect()
}

#[test]
fn seconds_of_nodes_add_up_to_the_run() {
    let bed = Bed::new();
    let text = comparison("seconds", 3, "udp-rr", "ideal", "");
    let text = text.replace("consumer: {count: 3}", "consumer: {count: 3, limits: {cpus: 0.5}}");
    let text = match lab::can_limit() {
        Ok(_) => text,
        Err(_) => text.replace(", limits: {cpus: 0.5}", ""),
    };
    bed.write("e.yaml", &text);
    bed.thingbed(&["run", "e.yaml"]).ran(&[]);
    let folder = bed.sweep("seconds");
    let summary = common::json(&folder.join("summary.json"));
    let accounting = &common::json(&folder.join("run.json"))["accounting"];
    let source = lab::can_limit().unwrap_or("/proc");
    assert_eq!(accounting["source"], source, "{accounting}");
    assert!(accounting["cpu_pct"].as_f64().unwrap() > 0.0);

    let mut sums: HashMap<String, [f64; 6]> = HashMap::new();
    for row in rows(&folder.join("nodes.parquet")) {
        let group = row["node"].as_str().unwrap().split('-').next().unwrap().to_owned();
        let keys = [
            "tx_bytes",
            "rx_bytes",
            "tx_frames",
            "voluntary_switches",
            "cpu_user_ms",
            "cpu_system_ms",
        ];
        let sum = sums.entry(group).or_default();
        keys.iter().zip(sum).for_each(|(key, sum)| *sum += row[*key].as_f64().unwrap());
        assert!(row["memory_peak_bytes"].as_f64() >= row["memory_bytes"].as_f64(), "{row}");
        assert!(row["memory_bytes"].as_f64().unwrap() > 0.0, "{row}");
    }
    for (group, sum) in sums {
        let of = |key: &str| figure(&summary, &format!(".groups.{group}.{key}"));
        let [tx, rx, frames, switches, user, system] = sum;
        // The seconds start slightly before the measurement.
        assert!(tx >= of("tx_bytes") && rx >= of("rx_bytes"), "{tx} {rx} {group}");
        let all = of("medium_tx_frames");
        assert!(frames >= of("tx_frames") && frames <= all, "{frames} {all}");
        assert!(switches > 0.0, "{group}");
        let cpu = of("cpu_ms");
        // The rows end with the drain phase, the metric with the programs.
        assert!(user + system > 0.0 && user + system < cpu * 1.5 + 50.0, "{user} {system} {cpu}");
        assert!(of("cpu_us_per_message") > 0.0);
    }
    let by_hand =
        figure(&summary, ".groups.utility.cpu_ms") * 1e3 / figure(&summary, ".messages.sent");
    let reported = figure(&summary, ".groups.utility.cpu_us_per_message");
    assert!((by_hand / reported - 1.0).abs() < 1e-9, "{by_hand} {reported}");
}

#[test]
fn a_program_killed_for_memory_is_reported_as_such() {
    if lab::can_limit().is_err() {
        return;
    }
    let bed = Bed::new();
    let text = "experiment: memory
nodes:
  greedy: {limits: {memory: 32 MiB}}
  other: {}
networks: {lan: {attach: [greedy, other], subnet: 10.0.0.0/24}}
workloads:
  - command: {on: greedy, run: [tail, /dev/zero]}
duration: 1 s
drain: 20 s
";
    bed.write("e.yaml", text);
    let words = ["the program of greedy was killed: out of memory, limit 32 MiB"];
    bed.thingbed(&["run", "e.yaml"]).failed(&words);
    // The program is a child of a shell, which survives.
    let shell = "[sh, -c, 'tail /dev/zero; exit 5']";
    bed.write("e.yaml", &text.replace("[tail, /dev/zero]", shell));
    let words = [
        "the program of greedy ended with status 5 after the kernel had killed one: out of memory, limit \
         32 MiB",
    ];
    bed.thingbed(&["run", "e.yaml"]).failed(&words);
    // A node's own program, before the run starts.
    let own = "{limits: {memory: 32 MiB}, run: [tail, /dev/zero], ready: {tcp: 9}}";
    bed.write("e.yaml", &text.replace("{limits: {memory: 32 MiB}}", own));
    let words = ["the program of greedy was killed: out of memory, limit 32 MiB"];
    bed.thingbed(&["run", "e.yaml"]).expect(1, &words);
}

#[test]
fn a_board_spends_by_its_time_on_air() {
    let bed = Bed::new();
    let board = "{supply: 1 V, battery: 1 Ah, cpu: {active: 0 A, idle: 0 A}, \
                  radio: {transmit: 1 A, receive: 0 A}}";
    let more = "expect:
  - {say: it costs something, metric: groups.consumer.energy_j_per_message, of: {model: udp-rr, network: slow}, is: above, value: 0}
";
    let text = comparison("energy", 2, "udp-rr", "slow", more);
    let text =
        text.replace("consumer: {count: 2}", &format!("consumer: {{count: 2, board: {board}}}"));
    bed.write("e.yaml", &text);
    bed.thingbed(&["run", "e.yaml"]).ran(&[]);
    let folder = bed.sweep("energy");
    let summary = common::json(&folder.join("summary.json"));
    // With 1 V and 1 A, joules are seconds on air, at 1 Mbit/s.
    let on_air = figure(&summary, ".groups.consumer.tx_bytes") * 8.0 / 1e6;
    let joules = figure(&summary, ".groups.consumer.energy_j");
    assert!((joules / on_air - 1.0).abs() < 0.05, "{joules} J, {on_air} s");
    assert!(figure(&summary, ".groups.consumer.battery_days") > 0.0);
    assert!(summary["groups"]["utility"].get("energy_j").is_none());
    let page = std::fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("energy per message"));
}

#[test]
fn a_slower_cpu_is_reckoned_by_this_hosts() {
    let bed = Bed::new();
    let text = "experiment: slower
nodes: {a: {limits: {cpu: CPU}}, b: {}}
networks: {lan: {attach: [a, b], subnet: 10.0.0.0/24}}
workloads:
  - command: {on: a, run: [sh, -c, 'i=0; while [ $$i -lt 20000 ]; do i=$$((i+1)); done']}
duration: 1 s
";
    let text = text.replace("$$", "$");
    bed.write("e.yaml", &text.replace("CPU", "5 % of esp32"));
    let mut command = bed.command(&["run", "e.yaml"]);
    let output = command.env_remove("THINGBED_COREMARK").output().unwrap();
    common::CommandOutput::of(output)
        .expect(1, &["could not limit node a", "THINGBED_COREMARK=30000"]);
    if lab::can_limit().is_err() {
        return;
    }
    bed.write("e.yaml", &text.replace("CPU", "400 MHz"));
    bed.thingbed(&["run", "e.yaml"]).ran(&[]);
    let host = common::json(&bed.sweep("slower").join("run.json"))["host_cpu"].clone();
    assert!(host["clock"].as_str().is_some_and(|clock| clock.ends_with("Hz")), "{host}");
}
