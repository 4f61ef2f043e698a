//! The project's experiments and schema.

use experiment::{Experiment, Only, Workload, schema};
use record::InteractionPattern;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

fn root(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(name: &str) -> Experiment {
    Experiment::read(&root("experiments").join(name)).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn the_schema_file_is_current() {
    let path = root("schema/experiment.schema.json");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, format!("{:#}\n", schema())).unwrap();
    }
    let kept: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    assert!(kept == schema(), "write it anew: UPDATE_GOLDEN=1 cargo test -p experiment");
}

/// What failed: editors marked a value that the check accepts, because the rest is the profile's.
#[test]
fn the_schema_accepts_a_part_of_a_profiles_grant() {
    let text = "experiment: e
nodes: {phone: {}, server: {}}
networks:
  n:
    attach: [phone, server]
    subnet: 10.0.0.0/24
    links: {phone: {profile: edge-lab, up: {grant: {cycle: 141 ms}}}}
duration: 1 s
";
    Experiment::parse(text, "e.yaml", "").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(schema()["$defs"]["Grant"].get("required"), None);
}

#[test]
fn the_comparison_is_the_papers() {
    let experiment = read("multi-protocol.yaml");
    assert_eq!((experiment.repeats, experiment.seed), (3, 7));
    assert_eq!(experiment.cells(&Only::all()).unwrap().len(), 12);
    for cell in experiment.cells(&Only::parse("network=ideal").unwrap()).unwrap() {
        let plan = experiment.plan(&cell, 0, 7).unwrap();
        assert_eq!(plan.nodes.len(), 301);
        assert_eq!(plan.nodes[300].name, "consumer-300");
        assert_eq!(plan.nodes[300].links[0].address.to_string(), "10.0.1.45");
        let Workload::Interaction(interaction) = &plan.workloads[0] else { panic!() };
        assert_eq!(interaction.replies(), 600, "{cell}");
        assert_eq!(interaction.multicast_rate.bit_s(), 100_000_000);
        assert!(interaction.payload.is_absolute());
    }
}

#[test]
fn the_two_constrained_networks_are_kept_apart() {
    let experiment = read("multi-protocol.yaml");
    let plan = |network: &str| {
        let only = Only::parse(&format!("model=pgm-ps,network={network}")).unwrap();
        experiment.plan(&experiment.cells(&only).unwrap()[0], 0, 7).unwrap()
    };
    let physical = plan("constrained-physical");
    assert!(
        matches!(physical.networks[0].channel, link::Channel::Shared(r) if r.bit_s() == 250_000)
    );
    assert!(physical.nodes[0].links[0].down.is_none());
    assert_eq!(physical.nodes[1].links[0].up.mean_loss(), 0.3);
    let paper = plan("constrained-paper");
    assert_eq!(paper.networks[0].channel, link::Channel::Switch);
    assert!(paper.nodes[0].links[0].up.is_none() && paper.nodes[1].links[0].up.is_none());
    let down = &paper.nodes[0].links[0].down.transmission.scheduler;
    assert!(matches!(down, Some(link::Scheduler::Rate { burst, .. }) if burst.get() == 1600));
    for plan in [physical, paper] {
        let Workload::Interaction(interaction) = &plan.workloads[0] else { panic!() };
        assert_eq!(interaction.down, InteractionPattern::PgmPublishSubscribe);
        assert_eq!(interaction.multicast_rate.bit_s(), 250_000);
    }
}

#[test]
fn the_small_comparison_takes_under_two_minutes_of_sending() {
    let experiment = read("multi-protocol-small.yaml");
    let cells = experiment.cells(&Only::all()).unwrap();
    assert_eq!(cells.len(), 8);
    let sending: u64 =
        cells.iter().map(|cell| experiment.plan(cell, 0, 7).unwrap().duration.as_ns()).sum();
    assert!(sending <= 60_000_000_000);
}

#[test]
fn the_mqtt_validation_is_the_papers() {
    for (name, seconds) in [("mqtt.yaml", 900.0), ("mqtt-quick.yaml", 20.0)] {
        let experiment = read(name);
        let cells = experiment.cells(&Only::all()).unwrap();
        assert_eq!(cells.len(), 6);
        for cell in cells {
            let plan = experiment.plan(&cell, 0, 7).unwrap();
            let Workload::Mqtt(mqtt) = &plan.workloads[0] else { panic!() };
            assert_eq!((mqtt.clients().len(), mqtt.payload_bytes), (350, 717), "{cell}");
            let steady = (mqtt.planned_duration().as_ns() - mqtt.duration.as_ns()) as f64 / 1e9;
            let schedule = mqtt.schedule(7, 0);
            let late = schedule.iter().filter(|m| m.at.as_ns() as f64 / 1e9 >= steady);
            assert_eq!(late.count() as f64, 100.0 * seconds, "{cell}");
        }
    }
}

#[test]
fn the_reference_speaks_of_cells_and_figures_that_there_are() {
    let experiment = read("multi-protocol.yaml");
    let path = experiment.reference.as_ref().unwrap();
    let reference: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let cells = experiment.cells(&Only::all()).unwrap();
    let figures = reference["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 10);
    for figure in figures {
        assert!(figure["metric"].is_string() && figure["unit"].is_string());
        for value in figure["values"].as_array().unwrap() {
            let text = |axis: &str| value["cell"][axis].as_str();
            let known = cells.iter().any(|c| c.axes().all(|(axis, v)| text(axis) == Some(v)));
            assert!(known && value["value"].is_number(), "{value}");
        }
    }
}

#[test]
fn the_cellular_sweep_is_the_papers() {
    let experiment = read("cellular.yaml");
    let cells = experiment.cells(&Only::all()).unwrap();
    assert_eq!(cells.len(), 9);
    for cell in cells {
        let plan = experiment.plan(&cell, 0, 7).unwrap();
        let Workload::Exchange(exchange) = &plan.workloads[0] else { panic!() };
        assert_eq!(exchange.exchanges(), 101 * 100, "{cell}");
        let last = exchange.sizes.last().copied();
        assert_eq!((exchange.sizes[0], last), (0, Some(10_000)), "{cell}");
    }
    let path = experiment.reference.as_ref().unwrap();
    let reference: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let figures = reference["figures"].as_array().unwrap();
    assert_eq!(figures.len(), 22);
    // The values of each table add up to its printed sums.
    let sum = |unit: &str, section: &str| -> f64 {
        let own = figures.iter().filter(|figure| {
            let metric = figure["metric"].as_str().unwrap();
            figure["unit"] == unit && metric.contains(section)
        });
        own.map(|figure| figure["values"][0]["value"].as_f64().unwrap()).sum()
    };
    assert_eq!((sum("ms", ".payload_"), sum("B", ".payload_")), (1_775.0, 2_839.0));
}

#[test]
fn the_other_cellular_sweeps_resolve() {
    let count = |name: &str| read(name).cells(&Only::all()).unwrap().len();
    assert_eq!(count("cellular-quick.yaml"), 9);
    assert_eq!(count("cellular-loss.yaml"), 36);
    assert_eq!(count("cellular-new.yaml"), 30);
    assert_eq!(count("cellular-shared.yaml"), 20);
    assert_eq!(count("cellular-pairs.yaml"), 12);
    let loss = read("cellular-loss.yaml");
    for cell in loss.cells(&Only::parse("loss=5 %").unwrap()).unwrap() {
        let plan = loss.plan(&cell, 0, 7).unwrap();
        let link = &plan.nodes[0].links[0];
        assert_eq!((link.up.mean_loss(), link.down.mean_loss()), (0.05, 0.05), "{cell}");
        assert!(link.up.transmission.grant().is_some());
    }
}

/// Covers every file in the folder, so that none is missed when the file format changes.
#[test]
fn every_experiment_has_a_plan_for_every_cell() {
    let files = fs::read_dir(root("experiments")).unwrap();
    let names = files.filter_map(|file| file.unwrap().file_name().into_string().ok());
    let names: Vec<String> = names.filter(|name| name.ends_with(".yaml")).collect();
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        let experiment = read(&name);
        for cell in experiment.cells(&Only::all()).unwrap() {
            let plan = experiment.plan(&cell, 0, 7);
            assert!(plan.is_ok(), "{name} {cell}: {:?}", plan.err());
        }
    }
}
