use super::{Inventory, Shared};
use crate::bed::roots::Roots;
use crate::bed::topology::Topology;
use crate::test_plan::plan;
use engine::Place;

fn inventory() -> Shared {
    let plan = plan(
        "experiment: e
nodes: {hub: {count: 1}, leaf: {count: 3}}
networks:
  air: {attach: [hub, leaf], subnet: 10.0.0.0/24}
  wire: {attach: [hub], subnet: 10.0.1.0/24, backend: netem, links: {hub: {down: {delay: 5 ms}}}}
workloads: [{command: {on: hub, run: ['true']}}]
duration: 1 s
",
    );
    Inventory::of(&plan, &Topology::of(&plan, &Roots::of(&plan).unwrap()))
}

fn names(which: &[&str]) -> Vec<String> {
    which.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn names_groups_and_patterns_select_each_node_once() {
    let shared = inventory();
    let inventory = shared.lock();
    let find = |which: &[&str]| inventory.find(&names(which)).unwrap();
    assert_eq!(find(&["leaf"]), [1, 2, 3]);
    assert_eq!(find(&["leaf-2", "leaf-*", "hub"]), [2, 1, 3, 0]);
    let error = inventory.find(&names(&["leef"])).unwrap_err();
    assert!(error.contains("`leef`") && error.contains("the groups are hub, leaf"), "{error}");
    assert!(inventory.find(&names(&["["])).unwrap_err().contains("is not a pattern"));
}

#[test]
fn groups_skip_nodes_that_are_gone_and_their_names_are_errors() {
    let shared = inventory();
    shared.lock().gone.insert(2);
    let find = |which: &str| shared.lock().find(&names(&[which]));
    assert_eq!(find("leaf").unwrap(), [1, 3]);
    assert_eq!(find("leaf-2").unwrap_err(), "the node `leaf-2` was destroyed or has ended");
    assert_eq!(shared.lock().present().collect::<Vec<_>>(), [0, 1, 3]);
    shared.lock().gone.extend([1, 3]);
    assert_eq!(find("leaf").unwrap_err(), "all 3 nodes of `leaf` were destroyed or have ended");
}

#[test]
fn links_that_netem_impairs_are_fixed() {
    let shared = inventory();
    let inventory = shared.lock();
    let places = inventory.places(0);
    assert_eq!(places, [(0, 0), (1, 0)].map(|(segment, endpoint)| Place { segment, endpoint }));
    assert_eq!(inventory.fixed.keys().collect::<Vec<_>>(), [&(1, 0)]);
    let [up, down] = &inventory.fixed[&(1, 0)];
    assert!(up.is_none() && !down.is_none());
}
