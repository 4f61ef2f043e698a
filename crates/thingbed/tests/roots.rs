//! Nodes whose root file system is a folder, or an image from an archive.

#[path = "../../image/tests/common/mod.rs"]
mod archive;
#[path = "roots/arm64.rs"]
mod arm64;
mod common;

use archive::{Image, Layer, Pack, busybox, write_folder, write_tar};
use common::{Bed, CommandOutput, figure, has, is_root, json};
use serde_json::json;
use std::fs;
use std::process::Command;

/// A busybox image of two layers, whose program prints its host and user.
fn image(user: &str) -> Option<Image> {
    let Some([lower, upper]) = busybox() else {
        eprintln!("NOT RUN: needs busybox-static");
        return None;
    };
    let program = json!({
        "Entrypoint": ["sh", "-c"], "Cmd": ["id -u; pwd; echo $COLOUR $THINGBED_NODE; hostname"],
        "Env": ["PATH=/bin", "COLOUR=red"], "WorkingDir": "/srv", "User": user,
    });
    Some(Image::new(vec![(lower, Pack::Gzip), (upper, Pack::Zstd)], program))
}

fn experiment(root: &str, run: &str) -> String {
    format!(
        "experiment: rooted
nodes:
  gateway: {{}}
  meter: {{count: 2, root: {root}}}
networks:
  field: {{attach: [gateway, meter], subnet: 10.3.0.0/24}}
models:
  udp-rr: {{down: udp/request-response, up: udp/request-response, every: 0.1 s}}
workloads:
  - interaction: {{source: gateway, sinks: meter, model: udp-rr, payload: payload.xml}}
  - command: {{on: meter-1, run: {run}}}
duration: 1 s
drain: 5 s
"
    )
}

fn run(bed: &Bed) -> CommandOutput {
    let cache = bed.path().join("cache");
    CommandOutput::of(
        bed.command(&["run", "e.yaml", "-q"]).env("XDG_CACHE_HOME", cache).output().unwrap(),
    )
}

#[test]
fn an_image_runs_in_all_the_forms_that_it_comes_in() {
    let Some(image) = image("meter") else { return };
    let bed = Bed::new();
    write_tar(&bed.path().join("saved.tar"), &image.saved());
    write_tar(&bed.path().join("layout.tar"), &image.layout());
    write_folder(&bed.path().join("layout"), &image.layout());
    let look = "[sh, -c, 'cat /etc/release /srv/*; ls /etc/gone; ls /; cat /etc/hosts']";
    for root in ["saved.tar", "layout.tar", "layout"] {
        bed.write("e.yaml", &experiment(root, look));
        run(&bed).ran(&["report: "]);
        let folder = bed.sweep("rooted");
        let out = |name: &str| fs::read_to_string(folder.join("programs").join(name)).unwrap();
        let seen = out("meter-1.1.out");
        assert!(seen.starts_with("two\nabove\n"), "{root}: {seen}");
        assert!(!seen.contains("usr"), "no files of the host: {seen}");
        assert!(out("meter-1.1.err").contains("/etc/gone: No such file"));
        // The image's program, on each node.
        for node in ["meter-1", "meter-2"] {
            assert_eq!(
                out(&format!("{node}.run.out")),
                format!("1000\n/srv\nred {node}\n{node}\n")
            );
        }
        // Thingbed's own programs ran there, too.
        let summary = json(&folder.join("summary.json"));
        assert_eq!(figure(&summary, ".messages.delivered"), 10.0, "{summary:#}");
    }
    // One image, whatever the archive format; it is removed on request.
    let gc = |args: &[&str]| {
        let cache = bed.path().join("cache");
        CommandOutput::of(bed.command(args).env("XDG_CACHE_HOME", cache).output().unwrap())
    };
    gc(&["gc"]).expect(0, &["1 image", "gc --images"]);
    gc(&["gc", "--images"]).expect(0, &["removed the image sha256:"]);
    gc(&["gc"]).expect(0, &["no leftovers found"]);
}

/// What failed: the image's own program always ran as well, next to the command in its place.
#[test]
fn an_empty_run_starts_nothing_of_the_image_and_commands_run_there() {
    let Some(image) = image("meter") else { return };
    let bed = Bed::new();
    write_tar(&bed.path().join("saved.tar"), &image.saved());
    let text = experiment("saved.tar", "[sh, -c, 'id -u; echo $COLOUR']");
    bed.write("e.yaml", &text.replace("root: saved.tar}", "root: saved.tar, run: []}"));
    run(&bed).ran(&["report: "]);
    let programs = bed.sweep("rooted").join("programs");
    assert_eq!(fs::read_to_string(programs.join("meter-1.1.out")).unwrap(), "1000\nred\n");
    let names = fs::read_dir(&programs).unwrap().map(|entry| entry.unwrap().file_name());
    let own: Vec<_> = names.filter(|name| name.to_string_lossy().contains(".run.")).collect();
    assert!(own.is_empty(), "{own:?}");
}

#[test]
fn a_folder_is_a_root_and_stays_as_it_was() {
    let Some(image) = image("") else { return };
    let bed = Bed::new();
    // The folder is an unpacked image.
    let (saved, root) = (bed.path().join("saved.tar"), bed.path().join("root"));
    write_tar(&saved, &image.saved());
    fs::create_dir(&root).unwrap();
    image::Archive::open(&saved, None).unwrap().unpack(&root).unwrap();
    bed.write("e.yaml", &experiment("root", "[sh, -c, 'pwd; id -u; : > /srv/mine; ls /srv']"));
    run(&bed).ran(&["report: "]);
    let out = fs::read_to_string(bed.sweep("rooted").join("programs/meter-1.1.out")).unwrap();
    assert_eq!(out, "/\n0\nabove\nmine\n");
    assert!(!root.join("srv/mine").exists() && !bed.path().join("cache").exists());
}

#[test]
fn what_is_wrong_with_an_image_is_said_before_anything_runs() {
    let Some(image) = image("") else { return };
    let bed = Bed::new();
    let mut files = image.saved();
    let cut = files[2].1.len() / 2;
    files[2].1.truncate(cut);
    write_tar(&bed.path().join("damaged.tar"), &files);
    bed.write("e.yaml", &experiment("damaged.tar", "[hostname]"));
    run(&bed).expect(1, &["root of node meter-1", "damaged.tar", "layer 2 of 2 (1/layer.tar)"]);

    let evil = Layer::new().symlink("out", "/etc").file("out/thingbed-was-here", b"");
    write_tar(
        &bed.path().join("evil.tar"),
        &Image::new(vec![(evil, Pack::Gzip)], json!({})).saved(),
    );
    bed.write("e.yaml", &experiment("evil.tar", "[hostname]"));
    run(&bed)
        .expect(1, &["meter-1", "`out/thingbed-was-here`", "leads out of the root", "refused"]);
    assert!(!std::path::Path::new("/etc/thingbed-was-here").exists());

    write_tar(&bed.path().join("good.tar"), &image.saved());
    bed.write("e.yaml", &experiment("good.tar", "[mosquitto, -v]"));
    let words = ["meter-1", "find mosquitto in PATH (/bin", "no files of the host"];
    run(&bed).expect(1, &words);
}

#[test]
fn without_root_an_image_runs_too() {
    let namespaces = fs::read_to_string("/proc/sys/user/max_user_namespaces").unwrap_or_default();
    if !is_root() || !has("setpriv") || namespaces.trim() == "0" {
        return;
    }
    let Some(image) = image("") else { return };
    let bed = Bed::new();
    let tool = std::path::Path::new(env!("CARGO_BIN_EXE_thingbed"));
    for name in ["thingbed", "thingbed-workload"] {
        fs::copy(tool.with_file_name(name), bed.path().join(name)).unwrap();
    }
    write_tar(&bed.path().join("saved.tar"), &image.saved());
    let look = "[sh, -c, 'cat /etc/release; ls /srv; rm /srv/above; ls /srv; : > /srv/x; ls /srv']";
    bed.write("e.yaml", &experiment("saved.tar", look));
    let line = "chown -R 65534:65534 . && exec setpriv --reuid=65534 --regid=65534 --clear-groups \
                env -u XDG_RUNTIME_DIR XDG_CACHE_HOME=$PWD/cache ./thingbed run e.yaml -q";
    let run = || {
        let mut shell = Command::new("sh");
        CommandOutput::of(shell.args(["-c", line]).current_dir(bed.path()).output().unwrap())
    };
    run().ran(&["report: "]);
    let out = fs::read_to_string(bed.sweep("rooted").join("programs/meter-1.1.out")).unwrap();
    assert_eq!(out, "two\nabove\nx\n");
    // A user namespace with one user has no other user.
    write_tar(&bed.path().join("saved.tar"), &crate::image("meter").unwrap().saved());
    run().expect(1, &["meter-1", "switch to the image's user `meter`", "run as root"]);
}

/// A node of an image for arm64, whose program starts itself again, and another node.
const FOREIGN: &str = "experiment: foreign
nodes:
  gateway: {}
  device: {root: image.tar, platform: linux/arm64, run: []}
networks:
  field: {attach: [gateway, device], subnet: 10.3.0.0/24}
workloads:
  - command: {on: device, run: [/bin/twice]}
duration: 1 s
";

fn write_foreign(bed: &Bed) {
    let layer = Layer::new().dir("bin/").program(arm64::NAME, &arm64::program());
    let mut image = Image::new(vec![(layer, Pack::Plain)], json!({}));
    image.config["architecture"] = "arm64".into();
    write_tar(&bed.path().join("image.tar"), &image.layout());
    bed.write("e.yaml", FOREIGN);
}

#[test]
fn an_image_for_another_architecture_runs_and_starts_programs() {
    if cfg!(target_arch = "aarch64") || !has("qemu-aarch64-static") {
        eprintln!("NOT RUN: needs qemu-user-static, on another machine than arm64");
        return;
    }
    let bed = Bed::new();
    write_foreign(&bed);
    run(&bed).ran(&["report: "]);
    let folder = bed.sweep("foreign");
    let out = fs::read_to_string(folder.join("programs/device.0.out")).unwrap();
    assert_eq!(out, "aarch64");
    // Other programs of the machine are not affected.
    assert!(!std::path::Path::new("/proc/sys/fs/binfmt_misc/aarch64").exists());
    let summary = json(&folder.join("summary.json"));
    assert!(figure(&summary, ".groups.device.cpu_ms") > 0.0, "{summary:#}");
    let run = json(&folder.join("run.json"));
    let evidence = run["verdict"]["evidence"].as_array().unwrap();
    let noted = evidence.iter().find(|one| one["name"] == "nodes that QEMU emulates").unwrap();
    assert_eq!((noted["value"].as_f64(), noted["detail"].as_str()), (Some(1.0), Some("device")));
}

#[test]
fn what_an_image_for_another_architecture_needs_is_said() {
    if cfg!(target_arch = "aarch64") {
        return;
    }
    let bed = Bed::new();
    write_foreign(&bed);
    let words = ["device", "arm64: qemu-aarch64-static is not in PATH", "package qemu-user-static"];
    let bare = bed.command(&["run", "e.yaml", "-q"]).env("PATH", "/nowhere").output().unwrap();
    CommandOutput::of(bare).expect(1, &words);
    bed.write("e.yaml", &FOREIGN.replace(", platform: linux/arm64", ""));
    run(&bed).expect(1, &["is for linux/arm64, and not for linux/", "`platform: linux/arm64`"]);
    bed.write("e.yaml", &FOREIGN.replace("linux/arm64", "linux/arm/v7"));
    let run = run(&bed);
    let missing =
        ["qemu-arm-static is not in PATH", "is for linux/arm64, and not for linux/arm/v7"];
    assert!(missing.iter().any(|text| run.err.contains(text)), "{}", run.err);
}
