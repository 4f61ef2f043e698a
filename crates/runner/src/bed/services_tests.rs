use super::programs;
use crate::bed::jobs::Role;
use crate::test_plan::plan;
use std::fs;

/// The configuration files of dnsmasq, and the roles of all programs of services.
fn configured(network: &str) -> (Vec<(String, String)>, Vec<Role>) {
    let plan = plan(&format!(
        "experiment: e
nodes: {{a: {{count: 1}}, phone: {{count: 2, address: dhcp}}}}
networks: {{lan: {{attach: [a, phone], subnet: 10.0.0.0/24, {network}}}}}
workloads: [{{command: {{on: a, run: ['true']}}}}]
duration: 1 s
"
    ));
    let dir = tempfile::tempdir().unwrap();
    let jobs = programs(&plan, dir.path()).unwrap();
    let files = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path());
    let files = files.filter(|path| path.extension().is_some_and(|end| end == "conf"));
    let mut texts: Vec<_> = files
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(path).unwrap())
        })
        .collect();
    texts.sort();
    (texts, jobs.iter().map(|job| job.role).collect())
}

#[test]
fn each_client_has_its_planned_address_for_ever() {
    let (texts, roles) = configured("dhcp: true");
    let [(_, text)] = &texts[..] else { panic!("{texts:?}") };
    assert!(text.contains("port=0\n"), "no name resolution: {text}");
    // Others than nodes get addresses of a pool.
    assert!(text.contains("dhcp-range=10.0.0.129,10.0.0.253,255.255.255.0,infinite\n"), "{text}");
    for number in 1..=3 {
        let (mac, address) = (format!("02:00:0a:00:00:0{number}"), format!("10.0.0.{number}"));
        assert!(text.contains(&format!("dhcp-host={mac},{address},infinite\n")), "{text}");
    }
    // Without a value, a client gets neither a router nor a name server.
    assert!(text.contains("dhcp-option=3\n") && text.contains("dhcp-option=6\n"), "{text}");
    assert_eq!(roles.iter().filter(|role| **role == Role::Client).count(), 2);
}

/// One server for both would resolve names of leases, even of nodes that are gone.
#[test]
fn leases_and_names_have_a_server_each() {
    let (texts, roles) = configured("dhcp: true, dns: true");
    let [(_, leases), (names, resolution)] = &texts[..] else { panic!("{texts:?}") };
    assert!(names.ends_with(".dns"), "{names}");
    assert!(leases.contains("port=0") && leases.contains("dhcp-option=6,10.0.0.254\n"), "{leases}");
    assert!(!resolution.contains("dhcp") && !resolution.contains("port=0"), "{resolution}");
    assert_eq!(roles.iter().filter(|role| **role == Role::Service).count(), 2);
}
