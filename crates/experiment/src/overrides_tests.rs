use super::*;
use crate::Experiment;

const FILE: &str = "\
experiment: e
# Groups.
nodes:
  hub: {run: [sleep, '9']}   # the gateway
  meter:
    count: 3
    limits: {cpus: 0.5}
networks:
  field:
    attach: [hub, meter]
    subnet: 10.0.0.0/24
    links:
      meter:
        up: {loss: '${loss}', delay: 10 ms}
workloads:
  - load: {name: http, on: meter, to: hub, protocol: http, port: 8080, arrivals: constant:1s}
matrix:
  loss:
  - 1 %   # low
  - 5 %
  other: [a, [b], {c: d}]
duration: 5 s
";

fn given(text: &str, set: &[&str]) -> Result<String, String> {
    let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
    let environment = |name: &str| match name {
        "METERS" => Some("7".to_owned()),
        "ODD" => Some("a\"b: #c\n\\d".to_owned()),
        "EMPTY" => Some(String::new()),
        "AXIS" => Some("${loss}".to_owned()),
        _ => None,
    };
    let done = apply(text, Overrides { set: &set, environment: &environment });
    done.map(|done| done.text).map_err(|(_, problems)| {
        let problem = &problems[0];
        format!("{}; {}", problem.message, problem.label)
    })
}

/// The value at `path` of the changed file.
fn value(set: &str, path: &[&str]) -> String {
    let text = given(FILE, &[set]).unwrap_or_else(|error| panic!("{set}: {error}"));
    assert!(text.contains("# the gateway") && text.contains("# Groups."), "{text}");
    let (root, problems) = tree::parse(&text).unwrap_or_else(|p| panic!("{}\n{text}", p.message));
    assert!(problems.is_empty(), "{text}");
    let found = path.iter().fold(&root, |at, step| match &at.content {
        Content::List(items) => &items[step.parse::<usize>().unwrap()],
        _ => at.get(step).unwrap_or_else(|| panic!("no {step} in\n{text}")),
    });
    match &found.content {
        Content::Scalar(text) => text.clone(),
        Content::List(items) => items.iter().map(Node::kind).collect::<Vec<_>>().join(" "),
        _ => found.kind(),
    }
}

#[test]
fn axes_and_keys_are_set_in_every_style() {
    assert_eq!(value("loss=20 %", &["matrix", "loss"]), "`20 %`");
    assert_eq!(value("matrix.loss=1 %|2 %", &["matrix", "loss"]), "`1 %` `2 %`");
    assert_eq!(value("other=[x, y]", &["matrix", "other"]), "`x` `y`");
    assert_eq!(value("nodes.meter.count=20", &["nodes", "meter", "count"]), "20");
    assert_eq!(value("nodes.hub.count=2", &["nodes", "hub", "count"]), "2");
    assert_eq!(
        value("nodes.meter.limits.memory=64 MiB", &["nodes", "meter", "limits", "memory"]),
        "64 MiB"
    );
    assert_eq!(value("nodes.hub.limits.cpus=1", &["nodes", "hub", "limits", "cpus"]), "1");
    let up = ["networks", "field", "links", "meter", "up", "delay"];
    assert_eq!(value("networks.field.links.meter.up.delay=80 ms", &up), "80 ms");
    let down = ["networks", "field", "links", "meter", "down", "loss"];
    assert_eq!(value("networks.field.links.meter.down.loss=3 %", &down), "3 %");
    assert_eq!(value("workloads.http.port=81", &["workloads", "0", "load", "port"]), "81");
    assert_eq!(value("workloads.0.load.count=9", &["workloads", "0", "load", "count"]), "9");
    assert_eq!(value("repeats=4", &["repeats"]), "4");
    assert_eq!(value("duration=1 min", &["duration"]), "1 min");
    assert_eq!(value("nodes.hub.run=[a, 'b c']", &["nodes", "hub", "run"]), "`a` `b c`");
    assert_eq!(
        value("networks.field.links={}", &["networks", "field", "links"]),
        "a map of keys and values"
    );
}

#[test]
fn values_of_axes_with_separators_are_set_in_quotes() {
    let axis = |set: &str, name: &str| value(set, &["matrix", name]);
    assert_eq!(axis(r#"loss="a|b"|c"#, "loss"), "`a|b` `c`");
    assert_eq!(axis(r#"loss= "a, b" | "c=d" "#, "loss"), "`a, b` `c=d`");
    assert_eq!(axis(r#"loss="say \"x\" \\""#, "loss"), r#"`say "x" \`"#);
    // Without quotes, `,` and `=` are parts of the only value, as before.
    assert_eq!(axis("loss=GET=9,POST=1", "loss"), "`GET=9,POST=1`");
    // A quote inside a word is itself.
    assert_eq!(axis("loss=5\"|7\"", "loss"), "`5\"` `7\"`");
    let text = FILE.replace("  loss:\n", "  'a=b.c':\n");
    let changed = given(&text, &[r#""a=b.c"=1"#]).unwrap();
    let (root, _) = tree::parse(&changed).unwrap();
    assert_eq!(edit::entry(root.get("matrix").unwrap(), "a=b.c").unwrap().1.kind(), "a list");
    assert!(changed.contains(r#"'a=b.c': ["1"]"#), "{changed}");
    // The value of a key is taken as it is, with its quotes.
    assert_eq!(value(r#"duration="5 s""#, &["duration"]), r#""5 s""#);
    for (set, words) in [
        (r#"loss="a|b"#, "no closing quote"),
        (r#"loss="a"b"#, "`b` follows a closing quote"),
        (r#""loss=1"#, "no closing quote"),
        (r#""nodes.meter.count"=1"#, "no axis and no key is `nodes.meter.count`"),
    ] {
        let error = given(FILE, &[set]).unwrap_err();
        assert!(error.contains(words), "{set}: {error}");
    }
}

#[test]
fn misspelt_and_incomplete_settings_are_refused() {
    for (set, words) in [
        ("los=5 %", "no axis and no key is `los`; did you mean `loss`?"),
        ("nodes.metr.count=2", "`nodes` has no entry `metr`; did you mean `meter`?"),
        ("workloads.htp.port=2", "did you mean `http`?"),
        ("duration.x=2", "`duration` has no keys: it is `5 s`"),
        ("loss", "not KEY=VALUE"),
        ("loss=", "not KEY=VALUE"),
        ("=5", "not KEY=VALUE"),
    ] {
        let error = given(FILE, &[set]).unwrap_err();
        assert!(error.contains(words), "{set}: {error}");
    }
    let alias = "experiment: e\nnodes: {a: &x {count: 1}, b: *x}\n";
    assert!(given(alias, &["nodes.b=1"]).unwrap_err().contains("is an alias"));
}

#[test]
fn later_settings_win_and_are_recorded() {
    let text = given(FILE, &["loss=2 %", "loss=3 %", "nodes.meter.count=4"]).unwrap();
    assert!(text.contains("loss: [\"3 %\"]") && !text.contains("low"), "{text}");
    assert!(text.ends_with("# Changed by --set loss=2 %\n# Changed by --set loss=3 %\n# Changed by --set nodes.meter.count=4\n"));
    let text =
        given("experiment: e\nnodes: {a: }\nseed:\n", &["nodes.a.count=4", "seed=5"]).unwrap();
    let (root, _) = tree::parse(&text).unwrap();
    assert_eq!(root.get("seed").unwrap().kind(), "`5`", "{text}");
    assert_eq!(root.get("nodes").unwrap().get("a").unwrap().get("count").unwrap().kind(), "`4`");
}

#[test]
fn environment_variables_are_filled_in_with_defaults() {
    let text = "a: ${env:METERS}\nb: '${env:NONE:-5 %} x'\nc: [\"${env:ODD}\", '$${env:NO}']\n\
                d: |\n  one ${env:METERS}\n  two\ne: ${env:EMPTY:-full}\n";
    let changed = given(text, &[]).unwrap();
    let (root, _) = tree::parse(&changed).unwrap_or_else(|p| panic!("{}\n{changed}", p.message));
    let kind = |key: &str| match &root.get(key).unwrap().content {
        Content::Scalar(text) => text.clone(),
        Content::List(items) => match &items[0].content {
            Content::Scalar(text) => text.clone(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    assert_eq!(
        (kind("a").as_str(), kind("b").as_str(), kind("e").as_str()),
        ("7", "5 % x", "full")
    );
    assert_eq!(kind("c"), "a\"b: #c\n\\d");
    assert_eq!(kind("d"), "one 7\ntwo\n", "{changed}");
    assert!(changed.contains("$${env:NO}") && changed.contains("# Environment: METERS=7\n"));
    for (text, words) in [
        ("a: ${env:NONE}\n", "`NONE` is not set; set it: `NONE=... thingbed ...`"),
        ("a: ${env:NONE\n", "without `}`"),
        ("a: '${env:A B}'\n", "not the name"),
        ("a: ${env:AXIS}\n", "has `${`"),
    ] {
        let error = given(text, &[]).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
}

#[test]
fn an_experiment_with_other_axes_keeps_the_expectations_that_fit() {
    let text = format!(
        "{FILE}expect:\n- {{say: a, metric: loads.http.sent, of: {{loss: 1 %, other: a}}, is: above, value: 1}}\n\
         - {{say: b, metric: loads.http.sent, of: {{loss: 5 %, other: a}}, is: above, value: 1}}\n"
    )
    .replace("[a, [b], {c: d}]", "[a]")
    .replace("constant:1s", "'constant:${other}s'")
    .replace("[a]", "['1']")
    .replace("other: a", "other: '1'");
    let set = ["loss=5 %|9 %".to_owned()];
    let overrides = Overrides { set: &set, environment: &|_| None };
    let experiment = Experiment::parse_with(&text, "e.yaml", "", overrides).unwrap();
    assert_eq!(experiment.expect.len(), 1);
    assert_eq!(experiment.skipped_expectations, 1);
    assert_eq!(experiment.axes().next().unwrap().1, ["5 %", "9 %"]);
    assert!(experiment.is_changed());
    let stored = Experiment::parse_stored(experiment.source(), "e.yaml", "").unwrap();
    assert_eq!(stored.axes().next().unwrap().1, ["5 %", "9 %"]);
}

/// The scalars of a tree, by their path for `--set`.
fn scalars_of(node: &Node, path: &str, found: &mut Vec<(String, String)>) {
    let below =
        |step: &str| if path.is_empty() { step.to_owned() } else { format!("{path}.{step}") };
    match &node.content {
        Content::Scalar(text) => found.push((path.to_owned(), text.clone())),
        Content::List(items) => items.iter().enumerate().for_each(|(number, item)| {
            scalars_of(item, &below(&number.to_string()), found);
        }),
        Content::Map(entries) => {
            entries.iter().for_each(|(key, value)| scalars_of(value, &below(&key.text), found));
        }
        Content::Nothing | Content::Broken => {}
    }
}

fn all_scalars(text: &str) -> Vec<(String, String)> {
    let (root, problems) = tree::parse(text).unwrap_or_else(|p| panic!("{}\n{text}", p.message));
    assert!(problems.is_empty(), "{text}");
    let mut found = Vec::new();
    scalars_of(&root, "", &mut found);
    found
}

/// All places of YAML at which a value can be: block and flow, plain, quoted and of several lines.
const STYLES: &str = "\
experiment: e # name
description: |
  some
  lines
nodes:
  a: {count: 2, run: [x, 'it''s', \"a\\\"b\\n\", ''], env: {A: '1', B: \"\"}}
  b:   # a comment
    run:
    - sh
    - -c
    - >-
      folded
      lines
    - |
      while true; do
        echo x
      done
    env:
      A: plain text
      'B': \"q\" # comment
    limits:
      {cpus: 0.5,
       processes: 9}
networks:
  n: {attach: [a, b], subnet: 10.0.0.0/24, links: {a: {up: {delay: 5 ms,
    loss: 1 %}}}}
workloads:
- load:
    name: http
    on: a
  # between
- command: {on: b, run: [y]}
duration: 5 s";

#[test]
fn a_setting_changes_its_value_and_no_other_in_every_style() {
    let before = all_scalars(STYLES);
    assert!(before.len() >= 25, "{}", before.len());
    for odd in ["plain", "5 %", "a\"b: #c, {d} [e] 'f' \\n & *g", "é😀", "yes", "null", "|"] {
        for (path, _) in &before {
            let changed = given(STYLES, &[&format!("{path}={odd}")])
                .unwrap_or_else(|error| panic!("{path}={odd}: {error}"));
            let expected: Vec<(String, String)> = before
                .iter()
                .map(|(other, old)| {
                    (other.clone(), if other == path { odd } else { old }.to_owned())
                })
                .collect();
            assert_eq!(all_scalars(&changed), expected, "{path}={odd}\n{changed}");
        }
    }
}

#[test]
fn settings_of_lists_and_maps_replace_them_and_no_other_value() {
    let before = all_scalars(STYLES);
    for (path, value, inside) in [
        ("nodes.a.run", "[p, 'q r']", vec![("nodes.a.run.0", "p"), ("nodes.a.run.1", "q r")]),
        ("nodes.b.run", "[p]", vec![("nodes.b.run.0", "p")]),
        ("nodes.b.env", "{C: '3', D: x}", vec![("nodes.b.env.C", "3"), ("nodes.b.env.D", "x")]),
        ("nodes.a.env", "{}", vec![]),
        ("nodes.b.limits", "{cpus: 2}", vec![("nodes.b.limits.cpus", "2")]),
        ("networks.n.links", "{}", vec![]),
        ("networks.n.attach", "[b]", vec![("networks.n.attach.0", "b")]),
    ] {
        let changed = given(STYLES, &[&format!("{path}={value}")]).unwrap();
        let is_inside = |other: &str| other.starts_with(&format!("{path}."));
        let all = all_scalars(&changed);
        let (found, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(other, _)| is_inside(other));
        let found: Vec<(&str, &str)> =
            found.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(found, inside, "{changed}");
        let kept: Vec<_> = before.iter().filter(|(other, _)| !is_inside(other)).cloned().collect();
        assert_eq!(others, kept, "{changed}");
    }
}

#[test]
fn variables_are_filled_in_as_they_are_in_every_style() {
    let odd = "a\"b: #c, {d} [e] 'f' \\n & *g é";
    let environment = |name: &str| (name == "X").then(|| odd.to_owned());
    let text = "\
a: ${env:X}
b: '<${env:X}>'   # ${env:Y}
c: \"<${env:X}>\"
d: [x, '${env:X}', \"${env:X}\"]
e: {f: '${env:X}'}
g: |
  one ${env:X}
h: >-   # a comment
  two ${env:X}
  three
i:
- |2-  # a comment
  ${env:X}
j:   # of a | and a >
  ${env:X}
k: >

  four
  ${env:X}
l: end
";
    let done = apply(text, Overrides { set: &[], environment: &environment }).unwrap();
    let expected = [
        ("a", odd.to_owned()),
        ("b", format!("<{odd}>")),
        ("c", format!("<{odd}>")),
        ("d.0", "x".to_owned()),
        ("d.1", odd.to_owned()),
        ("d.2", odd.to_owned()),
        ("e.f", odd.to_owned()),
        ("g", format!("one {odd}\n")),
        ("h", format!("two {odd} three")),
        ("i.0", odd.to_owned()),
        ("j", odd.to_owned()),
        ("k", format!("\nfour {odd}\n")),
        ("l", "end".to_owned()),
    ]
    .map(|(path, value)| (path.to_owned(), value));
    assert_eq!(all_scalars(&done.text), expected, "{}", done.text);
    assert_eq!(done.variables, ["X"]);
}

#[test]
fn a_setting_at_an_anchor_also_changes_its_aliases() {
    let text = "\
nodes:
  a: &x {count: 1}   # &z
  b: *x
duration: &d 5 s
drain: *d
files: &f
- p
- q
matrix: {m: *f}
plain:   # no &anchor
- 1
seed: [&i 7, *i]
";
    let values = |set: &str| {
        let changed = given(text, &[set]).unwrap_or_else(|error| panic!("{set}: {error}"));
        let all = all_scalars(&changed).into_iter().map(|(path, value)| format!("{path}={value}"));
        all.collect::<Vec<_>>().join(" ")
    };
    for (set, expected) in [
        ("duration=6 s", ["duration=6 s drain=6 s", "nodes.a.count=1 nodes.b.count=1"]),
        ("nodes.a={count: 3}", ["nodes.a.count=3 nodes.b.count=3", "duration=5 s drain=5 s"]),
        ("nodes.a.count=4", ["nodes.a.count=4 nodes.b.count=4", "matrix.m.0=p matrix.m.1=q"]),
        ("files=[r]", ["files.0=r matrix.m.0=r plain.0=1", "nodes.a.count=1"]),
        ("plain=[2]", ["plain.0=2", "files.0=p files.1=q"]),
        ("seed.0=8", ["seed.0=8 seed.1=8", "duration=5 s"]),
    ] {
        let found = values(set);
        assert!(expected.iter().all(|part| found.contains(part)), "{set}: {found}");
    }
    // An alias has no text to change.
    for set in ["drain=9 s", "nodes.b.count=2", "nodes.b={}"] {
        let error = given(text, &[set]).unwrap_err();
        assert!(error.contains("is an alias"), "{set}: {error}");
    }
}
