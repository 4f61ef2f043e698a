//! The built-in link profiles.

use experiment::{Experiment, LinkProfile, Only, Quality};
use std::path::Path;

fn all() -> Vec<LinkProfile> {
    let read = |name| LinkProfile::find(name, Path::new("")).unwrap_or_else(|e| panic!("{e}"));
    LinkProfile::known().map(read).collect()
}

#[test]
fn each_is_whole_and_uses_all_its_sources() {
    let all = all();
    assert_eq!(all.len(), 22);
    for profile in all {
        let name = &profile.name;
        let values = || profile.values.iter().chain(&profile.not_modelled);
        assert!(!profile.values.is_empty() && !profile.about.is_empty(), "{name}");
        for source in profile.sources.keys() {
            assert!(values().any(|value| value.sources.contains(source)), "{name}: {source}");
        }
        // Values with the source `guess` are `uncertain`, except `duplex`.
        for value in values() {
            let guessed = value.sources == ["guess"];
            assert!(
                !guessed || value.quality == Quality::Uncertain || value.key == "duplex",
                "{name}: {value:?}"
            );
        }
        assert!(profile.not_modelled.iter().all(|value| value.note.is_some()), "{name}");
        assert!(profile.rates().iter().all(Option::is_some), "{name}");
    }
}

#[test]
fn names_are_those_of_the_files() {
    let known: Vec<&str> = LinkProfile::known().collect();
    let names: Vec<String> = all().into_iter().map(|profile| profile.name).collect();
    assert_eq!(known, names);
}

#[test]
fn the_lab_has_no_weather_and_the_field_has() {
    for profile in all().iter().filter(|profile| profile.name.ends_with("-lab")) {
        for way in [&profile.up, &profile.down] {
            assert_eq!((way.delay.jitter.as_ns(), way.mean_loss()), (0, 0.0), "{}", profile.name);
        }
    }
    let field = LinkProfile::find("edge-field", Path::new("")).unwrap();
    assert!(
        field.up.delay.jitter.as_ns() > 0
            && field.up.mean_loss() > 0.0
            && field.up.delay.keep_order
    );
}

/// The plan of a network with `profile` and the lines `extra`.
fn planned(profile: &str, extra: &str) -> Result<experiment::Plan, String> {
    // Each family is refused on some: IPv4 by 6LoWPAN, IPv6 with a small MTU.
    let subnet = if profile.ends_with("lowpan") { "fd00:6::/64" } else { "10.0.0.0/24" };
    let text = format!(
        "experiment: e\nnodes: {{meter: {{}}, server: {{}}}}\nnetworks:\n  cell:\n    \
         attach: [meter, server]\n    subnet: {subnet}\n    profile: {profile}\n{extra}\
         duration: 1 s\nworkloads: [{{command: {{on: meter, run: [\"true\"]}}}}]\n"
    );
    let experiment = Experiment::parse(&text, "e.yaml", "").map_err(|e| e.to_string())?;
    let cell = &experiment.cells(&Only::all()).map_err(|e| e.to_string())?[0];
    experiment.plan(cell, 0, 1).map_err(|e| e.to_string())
}

#[test]
fn each_can_be_a_networks() {
    for profile in all() {
        let plan = planned(&profile.name, "").unwrap_or_else(|error| panic!("{error}"));
        let link = &plan.nodes[0].links[0];
        assert_eq!(
            (&link.up, &link.down, &link.states),
            (&profile.up, &profile.down, &profile.states)
        );
        assert_eq!(link.profile.as_ref().unwrap().name, profile.name);
    }
}

#[test]
fn one_value_said_otherwise_leaves_all_others() {
    let extra = "    links: {server: {profile: none}, meter: {up: {grant: {cycle: 141 ms}}}}\n";
    let plan = planned("edge-lab", extra).unwrap();
    let edge = LinkProfile::find("edge-lab", Path::new("")).unwrap();
    let link = &plan.nodes[0].links[0];
    let mut expected = edge.up.clone();
    let mut grant = expected.transmission.grant().unwrap().clone();
    grant.cycle = Some("141 ms".parse().unwrap());
    expected.transmission = link::Scheduler::Grant(grant).into();
    assert_eq!((&link.up, &link.down), (&expected, &edge.down));
    let server = &plan.nodes[1].links[0];
    assert!(server.up.is_none() && server.down.is_none() && server.profile.is_none());
}

#[test]
fn a_model_of_loss_takes_the_place_of_another() {
    let plan = planned("ieee802154", "    links: {meter: {up: {loss: 5 %}}}\n").unwrap();
    let up = &plan.nodes[0].links[0].up;
    assert_eq!(up.loss, "5 %".parse::<units::Ratio>().unwrap().into());
    assert!(matches!(plan.nodes[1].links[0].up.loss, link::Loss::GilbertElliott(_)));
    assert_eq!(plan.networks[0].mtu.get(), 113);
}

#[test]
fn a_profile_of_6lowpan_carries_ipv6_with_its_mtu() {
    let plan = planned("ieee802154-lowpan", "").unwrap();
    assert_eq!(plan.networks[0].mtu.get(), 1280);
    // The subnet is context 0, and is in the plan.
    let contexts = |plan: &experiment::Plan| match &plan.networks[0].channel {
        link::Channel::Csma(csma) => csma.compression().contexts.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(contexts(&plan), "fd00:6::/64");
    assert!(plan.to_string().contains("extended addresses and contexts fd00:6::/64"), "{plan}");
}
