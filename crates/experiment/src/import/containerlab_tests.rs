use super::tests::{assert_notes, converted, plan};
use super::*;

fn networks(imported: &Imported) -> Vec<String> {
    let members = |network: &str| -> String {
        let planned = plan(imported);
        let on = |node: &&crate::PlannedNode| node.links.iter().any(|link| link.network == network);
        let nodes = planned.nodes.iter().filter(on).map(|node| node.name.clone());
        nodes.collect::<Vec<_>>().join(" ")
    };
    let planned = plan(imported);
    planned.networks.iter().map(|one| format!("{}: {}", one.name, members(&one.name))).collect()
}

#[test]
fn groups_kinds_and_defaults_are_inherited() {
    let text = "topology:\n  defaults: {kind: linux, env: {A: '0', B: '0', C: '0', D: '0'}, binds: [x]}\n  \
                kinds: {linux: {cmd: of-kind, env: {B: '1', C: '1', D: '1'}, exec: [x], group: g}}\n  \
                groups: {g: {image: of-group, cmd: of-group, env: {C: '2', D: '2'}}, h: {kind: bridge}}\n  \
                nodes: {n: {env: {D: '3'}}, m: {group: none, cmd: own}, sw: {group: h}}\n  \
                links: [{endpoints: ['n:eth0', 'sw:a']}, {endpoints: ['m:eth0', 'sw:b']}]\n";
    let imported = converted(text);
    let planned = plan(&imported);
    let program = planned.nodes[0].program.as_ref().unwrap();
    assert_eq!(program.run, ["of-group"]);
    let env: String = program.env.iter().map(|(name, value)| format!("{name}{value} ")).collect();
    assert_eq!(env, "A0 B1 C2 D3 ");
    assert_eq!(planned.nodes[1].program.as_ref().unwrap().run, ["own"]);
    assert_eq!(networks(&imported), ["sw: n m"]);
    assert_notes(&imported, &["`binds` of the defaults", "`exec` of the kind linux"]);
    let imported = import(text, Path::new("/x/t.yaml"), false).unwrap();
    assert_eq!(imported.images, [("of-group".to_owned(), "of-group.tar".to_owned())]);
}

#[test]
fn linked_bridges_are_one_network() {
    let imported = converted(
        "topology:\n  nodes: {a: {}, b: {}, c: {}, br1: {kind: bridge}, br2: {kind: bridge}, br3: {kind: ovs-bridge}, \
         br4: {kind: bridge}}\n  \
         links:\n  - endpoints: ['br3:x', 'br2:x']\n  - endpoints: ['a:eth0', 'br1:a']\n  \
         - endpoints: ['b:eth0', 'br3:b']\n  - endpoints: ['br2:y', 'br1:y']\n  - endpoints: ['c:eth0', 'b:eth1']\n  \
         - endpoints: ['a:eth1', 'br2:a']\n",
    );
    assert_eq!(networks(&imported), ["br1: a b", "link-5: b c"]);
    assert_notes(
        &imported,
        &["the bridges br2 and br1 are one network, `br1`", "the second interface of a on `br1`"],
    );
}

#[test]
fn a_bridge_does_not_share_the_network_of_a_link() {
    let imported = converted(
        "topology:\n  nodes: {a: {}, b: {}, link-1: {kind: bridge}}\n  links:\n  - endpoints: ['a:eth0', 'b:eth0']\n  \
         - endpoints: ['a:eth1', 'link-1:a']\n",
    );
    assert_eq!(networks(&imported), ["link-1-2: a b", "link-1: a"]);
}

#[test]
fn interfaces_are_numbered_in_the_order_of_networks() {
    // The bridge's network comes first, because the first link needs it.
    let imported = converted(
        "topology:\n  nodes: {a: {}, b: {}, sw: {kind: bridge}}\n  links:\n  - endpoints: ['a:eth0', 'sw:a']\n  \
         - endpoints: ['a:eth1', 'b:eth0']\n  - endpoints: ['b:eth1', 'sw:b']\n",
    );
    let planned = plan(&imported);
    assert_eq!(planned.nodes[1].links[0].network, "sw");
    assert_notes(
        &imported,
        &["the interface eth1 of b is eth0", "the interface eth0 of b is eth1"],
    );
}

#[test]
fn an_mtu_is_a_number() {
    let mtu = |mtu: &str| {
        let text = format!(
            "topology:\n  nodes: {{a: {{}}, b: {{}}}}\n  links: [{{endpoints: ['a:x', 'b:x'], mtu: '{mtu}'}}]\n"
        );
        let imported = converted(&text);
        (plan(&imported).networks[0].mtu.get(), imported)
    };
    assert_eq!(mtu("${M:=1400}").0, 1400);
    let (default, imported) = mtu("999999");
    assert_eq!(default, 1500);
    assert_notes(&imported, &["`mtu` of a link: `999999` is left out"]);
}

#[test]
fn words_of_entry_points_and_commands_are_those_of_a_shell() {
    let imported = converted(
        r#"topology:
  nodes:
    a: {entrypoint: 'sh -c', cmd: "\"ip a; echo \\\"x y\\\" '\\d'\""}
    b: {cmd: bash -c 'while read x; do echo "$$x\n"; done'}
  links: [{endpoints: ["a:eth0", "b:eth0"]}]
"#,
    );
    let run = |node: usize| plan(&imported).nodes[node].program.clone().unwrap().run;
    assert_eq!(run(0), ["sh", "-c", r#"ip a; echo "x y" '\d'"#]);
    assert_eq!(run(1), ["bash", "-c", r#"while read x; do echo "$x\n"; done"#]);
}
