use super::tests::{assert_notes, converted, plan};
use super::*;
use crate::{Experiment, Overrides, plan::Workload};

/// A compose file with one service of these keys.
fn service(keys: &str) -> Imported {
    converted(&format!("services: {{a: {{command: [sleep, '9'], {keys}}}}}\n"))
}

#[test]
fn a_service_that_another_waits_for_to_end_may_end() {
    let text = "services:\n  migrate: {image: m, command: [migrate, up], ports: ['80'], restart: always}\n  \
                seed: {image: s}\n  web:\n    image: w\n    command: serve\n    restart: always\n    depends_on:\n      \
                migrate: {condition: service_completed_successfully}\n      \
                seed: {condition: service_completed_successfully}\n";
    let imported = converted(text);
    let on_host = plan(&imported);
    assert!(on_host.nodes[0].program.is_none());
    let [Workload::Command(command)] = on_host.workloads.as_slice() else { panic!() };
    assert_eq!(
        (&*command.name, &command.run[..]),
        ("migrate", &["migrate", "up"].map(String::from)[..])
    );
    assert!(on_host.nodes[2].program.is_some());
    assert_notes(
        &imported,
        &["`depends_on` of the service web: it does not wait for the end of migrate"],
    );
    // The image's own program cannot be a command: it may end as the node's.
    let imported = import(text, Path::new("/x/shop/compose.yaml"), false).unwrap();
    assert!(
        imported.text.contains("    root: s.tar\n    expect: {exit: 0}\n"),
        "{}",
        imported.text
    );
    // What failed: the image's own program ran next to the command that replaces it.
    assert!(imported.text.contains("    root: m.tar\n    run: []\n"), "{}", imported.text);
}

#[test]
fn a_service_that_serves_and_one_that_is_started_only_stay() {
    let started = "services:\n  db: {command: serve}\n  web: {command: x, restart: always, depends_on: {db: \
                   {condition: service_started}}}\n";
    assert!(plan(&converted(started)).nodes.iter().all(|node| node.program.is_some()));
}

#[test]
fn variables_of_numbers_stay_or_have_their_default() {
    let imported = service(
        "cpus: '${CPU:-0.5}', mem_limit: '${MEM:-50m}', scale: '${N:-2}', restart: always, ports: ['80:${Q:-81}']",
    );
    let planned = plan(&imported);
    assert_eq!(planned.nodes.len(), 2);
    assert_eq!(planned.nodes[0].limits.cpus, Some(0.5));
    assert_eq!(planned.nodes[0].limits.memory.unwrap().get(), 50 << 20);
    assert!(imported.text.contains("ready: {tcp: 81}"), "{}", imported.text);
    assert_notes(
        &imported,
        &[
            "`cpus` of the service a: var",
            "the limit of memory of the service a: it is `50m`",
            "the replicas",
            "a port",
        ],
    );
    let environment = |name: &str| (name == "CPU").then(|| "0.25".to_owned());
    let overrides = Overrides { set: &[], environment: &environment };
    let read = Experiment::parse_with(&imported.text, "e.yaml", "", overrides).unwrap();
    assert!(read.source().contains("cpus: \"0.25\""), "{}", read.source());
}

#[test]
fn what_is_no_number_is_left_out_with_a_note() {
    let imported = service(
        "cpus: lots, mem_limit: '${MEM}', scale: '-1', ports: ['80:${Q}', x], restart: always",
    );
    let planned = plan(&imported);
    assert_eq!((planned.nodes.len(), planned.nodes[0].limits.cpus), (1, None));
    assert!(!imported.text.contains("\n    ready:"), "{}", imported.text);
    let notes = [
        "`cpus` of the service a: `lots`",
        "the limit of memory of the service a: ``",
        "`-1`",
        "`80:${Q}`",
        "`x` is",
    ];
    assert_notes(&imported, &notes);
    // No limit in compose files.
    assert!(!service("cpus: 0, mem_limit: 0").text.contains("limits"));
}

#[test]
fn the_default_of_a_variable_is_the_image() {
    let import = |image: &str| {
        let text = format!("services: {{a: {{image: '{image}'}}}}\n");
        import(&text, Path::new("/x/compose.yaml"), false).unwrap()
    };
    let imported = import("nginx:${TAG:-1.25}");
    assert_eq!(imported.images, [("nginx:1.25".to_owned(), "nginx-1.25.tar".to_owned())]);
    assert_notes(&imported, &["the variables in the image of the service a: it is `nginx:1.25`"]);
    assert_eq!(import("nginx:${TAG}").images[0].0, "nginx");
    let none = import("${IMAGE}");
    assert!(none.images.is_empty() && !none.text.contains("root"), "{}", none.text);
    assert_notes(&none, &["no image has the name ``"]);
}

#[test]
fn images_do_not_share_an_archive() {
    let text = "services: {a: {image: x/y}, b: {image: x-y}, c: {image: x/y}}\n";
    let imported = import(text, Path::new("/x/compose.yaml"), false).unwrap();
    let archives: Vec<&str> = imported.images.iter().map(|(_, archive)| archive.as_str()).collect();
    assert_eq!(archives, ["x-y.tar", "x-y-2.tar"]);
}

#[test]
fn commands_with_variables_are_split_after_them() {
    let run = |command: &str| -> Vec<String> {
        let imported =
            converted(&format!("services: {{a: {{command: {command}, restart: always}}}}\n"));
        plan(&imported).nodes[0].program.clone().unwrap().run
    };
    assert_eq!(run("'${CMD:-sleep 100} $EXTRA'"), ["sleep", "100"]);
    assert_eq!(run("'serve $EXTRA --port=${PORT:-80}'"), ["serve", "--port=80"]);
    assert_eq!(run("['$PRE', serve, '$EXTRA']"), ["serve", ""]);
    assert_eq!(run("[echo, '${A:+yes}', '${A:-${B:-c}}', '$$${HOME}']"), ["echo", "", "c", "$"]);
    let imported = service("environment: ['A=${X:+yes}']");
    assert_notes(&imported, &["the variable ${X:+yes} in the variable A of the service a"]);
}

#[test]
fn subnets_of_both_families_are_used() {
    let imported = converted(
        "services: {a: {networks: [v4, v6, both, bad]}}\nnetworks:\n  v4: {ipam: {config: [{subnet: 10.9.0.1/24}]}}\n  \
         v6: {enable_ipv6: true, ipam: {config: [{subnet: 'fd00:1::/64'}]}}\n  \
         both: {ipam: {config: [{subnet: 'fd00:2::/64'}, {subnet: '${S:-10.8.0.0/24}'}]}}\n  \
         bad: {ipam: {config: [{subnet: 10.9.0.0/99}, {subnet: 'fd00:3::/64'}, {subnet: 'fd00:4::/64'}]}}\n",
    );
    let planned = plan(&imported);
    let subnets: Vec<String> =
        planned.networks.iter().map(|network| network.subnet.to_string()).collect();
    assert_eq!(subnets, ["10.9.0.0/24", "fd00:1::/64", "fd00:2::/64", "fd00:3::/64"]);
    let second: Vec<bool> =
        planned.networks.iter().map(|network| network.second_subnet.is_some()).collect();
    assert_eq!(second, [false, false, true, false]);
    assert_notes(
        &imported,
        &["10.9.0.0/99, is left out", "fd00:4::/64, is left out: a network has one"],
    );
}

#[test]
fn subnets_do_not_overlap() {
    let imported = converted(
        "services: {a: {networks: [p, q, r, s]}, b: {scale: 300, networks: [p, s]}}\nnetworks:\n  p: {}\n  \
         q: {ipam: {config: [{subnet: 10.2.0.0/16}]}}\n  r: {ipam: {config: [{subnet: 10.2.3.0/24}]}}\n  \
         s: {ipam: {config: [{subnet: 10.7.0.0/24}]}}\n",
    );
    let subnets: Vec<String> =
        plan(&imported).networks.iter().map(|network| network.subnet.to_string()).collect();
    assert_eq!(subnets, ["10.1.0.0/23", "10.2.0.0/16", "10.4.0.0/24", "10.3.0.0/23"]);
    assert_notes(&imported, &["10.2.0.0/16 of another network", "no room for 301 nodes"]);
}

#[test]
fn three_hundred_networks_have_subnets() {
    let mut text = "services:\n  a: {}\n".to_owned();
    (0..300).for_each(|n| text += &format!("  s{n}: {{networks: [n{n}]}}\n"));
    text += "networks:\n";
    (0..300).for_each(|n| text += &format!("  n{n}: {{}}\n"));
    let imported = converted(&text);
    assert_eq!(plan(&imported).networks.len(), 301);
    assert!(imported.text.contains("subnet: 10.1.1.0/24"));
}

#[test]
fn names_are_there_once() {
    let imported = converted(
        "services: {a_b: {}, a-b: {scale: 3, networks: [x.y, x-y]}, a-b-2: {}}\nnetworks: {x.y: {}, x-y: {}}\n",
    );
    let planned = plan(&imported);
    let names: Vec<&str> = planned.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a-b-n2", "a-b-1", "a-b-2", "a-b-3", "a-b-2-2"]);
    assert_notes(
        &imported,
        &["the name a_b: a node is `a-b-n2`", "the name x.y: the network is `x-y-2`"],
    );
}

#[test]
fn services_without_replicas_are_left_out() {
    let imported = converted(
        "services: {a: {deploy: {replicas: 0}, networks: [x]}, b: {}}\nnetworks: {x: {}}\n",
    );
    let planned = plan(&imported);
    assert_eq!((planned.nodes.len(), planned.networks.len()), (1, 1));
    assert_notes(&imported, &["the service a: it has no replicas"]);
    let none = import("services: {a: {scale: 0}}", Path::new("f"), true).unwrap_err();
    assert!(none.to_string().contains("no service with replicas"));
}

#[test]
fn capabilities_are_those_of_the_kernel() {
    let imported = service("cap_add: [CAP_NET_RAW, net_raw, SYS_NONE]");
    assert!(imported.text.contains("capabilities: [NET_RAW]"), "{}", imported.text);
    assert_notes(&imported, &["no capability `SYS_NONE`"]);
    plan(&imported);
    let all = service("cap_add: [ALL]");
    assert!(plan(&all).nodes[0].privileged && !all.text.contains("capabilities:"));
    assert_notes(&all, &["`cap_add: ALL` of the service a is `privileged`"]);
}

#[test]
fn without_an_image_a_command_replaces_no_entry_point() {
    assert!(!service("restart: always").text.contains("entry point"));
    let text = "services: {a: {image: x, command: y}}\n";
    let imported = import(text, Path::new("/x/compose.yaml"), false).unwrap();
    assert_notes(&imported, &["replaces the image's entry point"]);
}

#[test]
fn variables_and_ports_without_a_program_are_left_out() {
    let imported = converted("services: {a: {image: x, ports: ['80:80'], environment: {A: b}}}\n");
    let planned = plan(&imported);
    assert!(planned.nodes[0].program.is_none());
    assert_notes(&imported, &["`env` of the service a: it has no program"]);
}

#[test]
fn words_are_those_of_a_shell_in_each_style_of_yaml_and_lists_are_not_split() {
    for (command, expected) in [
        (r#"echo "a\d""#, &["echo", r"a\d"][..]),
        (r#"'echo "a\\d" ''b c'''"#, &["echo", r"a\d", "b c"]),
        (r#""echo \"a\\\\d\" 'x y'""#, &["echo", r"a\d", "x y"]),
        (r#"[echo, "a\\d", 'it''s "x"', '', "b c"]"#, &["echo", r"a\d", "it's \"x\"", "", "b c"]),
        ("[echo a]", &["echo a"]),
        (">\n      sh -c\n      \"a  b\"", &["sh", "-c", "a  b"]),
        (
            "|\n      run \\\n        --fast \\\n        'a\n        b'",
            &["run", "--fast", "a\n  b"],
        ),
        // Compose replaces `$$` by `$`; the shell in the node sees the rest.
        (r#"sh -c 'echo "$$HOME" $$1'"#, &["sh", "-c", r#"echo "$HOME" $1"#]),
        (r#"'echo "${X:-a b}"'"#, &["echo", "a b"]),
        // An unquoted default with blanks is several words.
        ("'echo ${X:-a b}'", &["echo", "a", "b"]),
        ("echo a # comment", &["echo", "a"]),
        (r#"'echo "a"b''c d''"e"'"#, &["echo", "abc de"]),
    ] {
        let text = format!("services:\n  a:\n    restart: always\n    command: {command}\n");
        let planned = plan(&converted(&text));
        assert_eq!(planned.nodes[0].program.as_ref().unwrap().run, expected, "{text}");
    }
}

#[test]
fn values_of_variables_are_texts_in_each_style() {
    let imported = service(
        r#"restart: always, environment: ["A=it's \"q\" \\d", 'B=#x: y', "C=a=b", "D=", 'E= x ', "F=1\n2", 'G=$$H']"#,
    );
    let program = plan(&imported).nodes[0].program.clone().unwrap();
    let env: Vec<(&str, &str)> =
        program.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(
        env,
        [
            ("A", "it's \"q\" \\d"),
            ("B", "#x: y"),
            ("C", "a=b"),
            ("D", ""),
            ("E", " x "),
            ("F", "1\n2"),
            ("G", "$H"),
        ]
    );
}

#[test]
fn what_depends_on_a_program_of_a_node_starts_after_it() {
    let text = "services:\n  db: {image: d, command: serve}\n  web: {image: w, command: x, restart: always, \
                depends_on: [db, gone]}\n  proxy:\n    image: p\n    command: y\n    ports: ['80']\n    \
                depends_on: {web: {condition: service_healthy}, db: {condition: service_started}}\n  \
                once: {image: o, command: z, depends_on: [web]}\n";
    let imported = converted(text);
    let plan = plan(&imported);
    let after = |name: &str| {
        let node = plan.nodes.iter().find(|node| node.name == name).unwrap();
        node.program.as_ref().map(|program| program.after.join(" ")).unwrap_or_default()
    };
    assert_eq!(["db", "web", "proxy", "once"].map(after), ["", "db", "web db", ""]);
    assert_notes(
        &imported,
        &[
            "`depends_on` of the service web: gone is not a program of a node",
            "`depends_on` of the service once: it starts when all nodes are `ready`",
        ],
    );
    // Compose refuses it, and so would `check`.
    let circle = "services:\n  a: {image: a, command: x, depends_on: [b]}\n  b: {image: b, command: x, \
                  depends_on: [a]}\n  c: {image: c, command: x, restart: always, depends_on: [c]}\n";
    let imported = converted(circle);
    assert_eq!(imported.text.matches("after:").count(), 1, "{}", imported.text);
}
