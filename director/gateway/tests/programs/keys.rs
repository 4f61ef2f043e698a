//! Devices with a key each.

use crate::bed::*;
use std::path::Path;
use std::process::Command;

/// Writes a key for each name; returns their paths.
fn keys(folder: &Path, names: &[&str]) -> Vec<String> {
    let write = |name: &&str| {
        let path = folder.join(name);
        std::fs::write(&path, format!("the key of the gateway {name}")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    std::fs::create_dir_all(folder).unwrap();
    names.iter().map(write).collect()
}

/// One device has an address that the hub knows, the other one a place; a third key belongs to neither.
#[test]
fn each_device_joins_with_its_own_key_at_a_hub_that_signs() {
    if !has("mosquitto_sub") {
        return;
    }
    let folder = std::env::temp_dir().join(format!("gateways-keys-{}", std::process::id()));
    let keys = keys(&folder, &["known", "placed", "foreign"]);
    let (hub, known, other) = (free_udp(), free_udp(), free_udp());
    let at_hub =
        ["hub", "--key", &keys[0], "--key", &keys[1], "--sign", "--local", &hub, &known[..]];
    let device = |key, local| gateway(&["device", "--key", key, "--local", local, "--hub", &hub]);
    let mut gateways = Gateways { hub: gateway(&at_hub), device: device(&keys[0], &known), folder };
    let mut placed = device(&keys[1], "127.0.0.1:0");
    let mut foreign = device(&keys[2], &other);
    let sinks: Vec<_> = [&gateways.device.port, &placed.port]
        .into_iter()
        .map(|port| {
            registered(port, "mqttv311", "a client");
            let arguments = ["-p", port, "-i", "a client", "-c", "-q", "2", "-t", "a/#"];
            start("mosquitto_sub", &[&arguments[..], &["-C", "2", "-W", "100"]].concat())
        })
        .collect();
    for (port, topic) in [(&gateways.hub.port, "a/hub"), (&placed.port, "a/placed")] {
        let sent = start("mosquitto_pub", &["-p", port, "-q", "1", "-t", topic, "-m", "17"]);
        assert!(ended(sent).status.success());
    }
    for sink in sinks {
        assert_eq!(text(&ended(sink)), "17\n17\n");
    }
    // Its hub never answers, so its clients wait.
    let refused = ["-p", &foreign.port, "-t", "a/#", "-W", "2", "-C", "1"];
    assert!(!ended(start("mosquitto_sub", &refused)).status.success());
    for process in [&mut placed.process, &mut foreign.process, &mut gateways.hub.process] {
        let _ = process.kill();
        let _ = process.wait();
    }
}

#[test]
fn wrong_numbers_of_keys_are_errors_with_their_reasons() {
    let folder = std::env::temp_dir().join(format!("gateways-wrong-keys-{}", std::process::id()));
    let keys = keys(&folder, &["one", "other"]);
    let (key, other) = (&keys[0][..], &keys[1][..]);
    let local = "127.0.0.1:0";
    let [a, b] = ["127.0.0.1:1", "127.0.0.1:2"];
    for (arguments, expected) in [
        (&["hub", "--local", local, a][..], "--key is missing"),
        (&["hub", "--key", key, "--sign", "--local", local, a, b], "1 keys for 2 members"),
        (
            &["hub", "--key", key, "--key", other, "--local", local, a, b, "127.0.0.1:3"],
            "2 keys for 3",
        ),
        (&["hub", "--key", key, "--key", key, "--local", local, a, b], "have the same key"),
        (
            &["hub", "--key", key, "--key", other, "--places", "0", "--local", local, a],
            "2 keys for 1",
        ),
        (
            &["device", "--key", key, "--key", other, "--local", local, "--hub", a],
            "a device has one",
        ),
        (&["device", "--key", "/dev/zero", "--local", local, "--hub", a], "more than 4096 bytes"),
        (&["device", "--key", "/dev/null", "--local", local, "--hub", a], "0 bytes is too short"),
        (&["device", "--key", "/", "--local", local, "--hub", a], "cannot read the key /"),
        (&["device", "--key", key, "--sign", "--local", local, "--hub", a], "unknown argument"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_director-gateway"));
        let output = command.args(arguments).args(["--mqtt", "127.0.0.1:0"]).output().unwrap();
        let output = text(&output);
        assert!(output.contains(expected), "{arguments:?}: {output}");
    }
    let _ = std::fs::remove_dir_all(folder);
}
