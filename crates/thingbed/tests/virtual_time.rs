//! Runs in virtual time: byte-identical on a busy machine, and isolated from the host.

mod common;

use common::{Bed, CommandOutput, figure};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Two cells with some meters over UDP and ZeroMQ, on a lossy network.
const METERS: &str = "experiment: meters
nodes: {utility: {}, meter: {count: 3}}
networks: {grid: {attach: [utility, meter], subnet: 10.0.0.0/24, profile: lossy}}
profiles: {lossy: {links: {meter: {up: {delay: 20 ms, loss: 10 %, rate: 250 kbit/s}, down: {delay: 20 ms}}}}}
models:
  udp: {down: udp/request-response, up: udp/request-response, every: 0.1 s, drain: 2 s}
  tcp: {down: tcp/router-dealer, up: tcp/request-reply, every: 0.1 s}
workloads:
  - interaction: {name: poll, source: utility, sinks: meter, model: \"${model}\", payload: payload.xml}
duration: 2 s
drain: 5 s
matrix: {model: [udp, tcp]}
";

/// One program in a node, with another node that it can reach.
fn command(run: &str) -> String {
    format!(
        "experiment: one
nodes: {{a: {{}}, b: {{}}}}
networks: {{n: {{attach: [a, b], subnet: 10.0.0.0/24, links: {{a: {{up: {{delay: 30 ms}}, down: {{delay: 30 ms}}}}}}}}}}
workloads:
  - command: {{on: a, run: {run}}}
duration: 3 s
drain: 1 s
"
    )
}

/// Loops that keep all CPUs busy until dropped.
struct Busy(Vec<Child>);

impl Busy {
    fn begin() -> Self {
        let one = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..4).map(|_| one()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// All files below `folder` with their content, except those that depend on the machine.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                todo.push(path);
                continue;
            }
            if path.ends_with("host.json") {
                continue;
            }
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            all.insert(name, fs::read(&path).unwrap());
        }
    }
    all
}

#[test]
fn runs_are_the_same_byte_for_byte_one_by_one_and_side_by_side_on_a_busy_machine() {
    let bed = Bed::new();
    bed.write("e.yaml", METERS);
    let run = |jobs: &str| {
        let words = ["run", "e.yaml", "--clock", "virtual", "--jobs", jobs];
        let output = bed.thingbed(&words).expect(0, &["VALID", "in virtual time: 2 valid"]);
        let folder = bed.sweep("meters");
        let files = files(&folder);
        fs::remove_dir_all(folder).unwrap();
        (files, output)
    };
    let (one, _) = run("1");
    let busy = Busy::begin();
    let (two, output) = run("2");
    drop(busy);
    let differing: Vec<&String> =
        one.iter().filter(|(name, bytes)| two.get(*name) != Some(bytes)).map(|f| f.0).collect();
    assert!(differing.is_empty() && one.len() == two.len(), "{differing:?}");
    assert!(one.contains_key("udp-0/messages.parquet"), "{:?}", one.keys());
    // Log lines of parallel runs have the name of their run.
    assert!(
        output.err.lines().any(|line| line.starts_with("[2/2] tcp-0:  running")),
        "{}",
        output.err
    );
}

/// The cells of a sweep by CPU.
fn by_cpu(bed: &Bed) -> BTreeMap<String, Value> {
    let all = bed.summaries("meters").into_iter();
    all.map(|run| (run["cell"]["virtual_cpu"].as_str().unwrap().to_owned(), run)).collect()
}

#[test]
fn a_cpu_of_finite_speed_is_the_same_each_time_and_its_figures_are_told_apart() {
    let bed = Bed::new();
    bed.write("e.yaml", METERS);
    let run = || {
        let words = ["run", "e.yaml", "--only", "model=udp", "--cpu", "infinite,1"];
        let words = [&words[..], &["--jobs", "2"]].concat();
        bed.thingbed(&words).expect(0, &["2 valid", "Figures by CPU (infinite / 1;", "= 20 "]);
        let (folder, cells) = (bed.sweep("meters"), by_cpu(&bed));
        let files = files(&folder);
        fs::remove_dir_all(folder).unwrap();
        (files, cells)
    };
    let (one, cells) = run();
    let busy = Busy::begin();
    let (two, _) = run();
    drop(busy);
    let differing: Vec<&String> =
        one.iter().filter(|(name, bytes)| two.get(*name) != Some(bytes)).map(|f| f.0).collect();
    assert!(differing.is_empty() && one.len() == two.len(), "{differing:?}");
    let (infinite, finite) = (&cells["infinite"], &cells["1"]);
    // Random draws depend on the seed; programs take time only on one of the CPUs.
    assert_eq!(infinite["messages"]["received"], finite["messages"]["received"]);
    assert_eq!(infinite["all"]["cpu_ms"], Value::Null);
    assert!(finite["all"]["cpu_ms"].as_f64() > Some(1.0), "{finite:#}");
    let mean = |run: &Value| run["messages"]["rtd_ms"]["mean"].as_f64().unwrap();
    assert!(mean(finite) > mean(infinite) + 0.05, "{} {}", mean(finite), mean(infinite));
}

#[test]
fn what_runs_in_real_time_is_refused_in_words() {
    let bed = Bed::new();
    let nat = command("[\"true\"]").replace("subnet:", "nat: true, subnet:");
    bed.write("nat.yaml", &nat);
    let words = ["run", "nat.yaml", "--clock", "virtual"];
    bed.thingbed(&words).expect(2, &["nat: true", "answer in real time", "use --clock real"]);
    // What failed before: they held the clock for five minutes, then failed.
    let none = command("[\"true\"]");
    let (head, _) = none.split_once("workloads:").unwrap();
    for (workload, word) in [
        (
            "device: {on: a, resources: {r: {time: constant:1ms, mode: busy}}}",
            "a resource of a device",
        ),
        ("device: {on: a, spin: true}", "a device has `spin: true`"),
        ("probe: {name: p, on: a}", "the probe p has `mode: busy` (the default is both modes)"),
    ] {
        bed.write("busy.yaml", &format!("{head}workloads: [{workload}]\nduration: 1 s\n"));
        let words = ["run", "busy.yaml", "--cpu", "1,infinite"];
        bed.thingbed(&words).expect(2, &[word, "use a CPU of finite speed (--cpu 1), or"]);
    }
    bed.write("e.yaml", &format!("clock: virtual\n{}", command("[\"true\"]")));
    let mut without = bed.command(&["run", "e.yaml"]);
    without.env("THINGBED_KERNEL", "/nonexistent");
    let output = CommandOutput::of(without.output().unwrap());
    output.expect(1, &["THINGBED_KERNEL is /nonexistent, which is not an executable file"]);
    // The command line overrides the file.
    let mut real = bed.command(&["run", "e.yaml", "--clock", "real"]);
    real.env("THINGBED_KERNEL", "/nonexistent");
    CommandOutput::of(real.output().unwrap()).ran(&["1 run in 1 cell: "]);
    let words = ["run", "e.yaml", "--clock", "real", "--cpu", "8"];
    bed.thingbed(&words).expect(2, &["--cpu needs virtual time"]);
    let words = ["run", "e.yaml", "--clock", "real", "--jobs", "2"];
    bed.thingbed(&words).expect(2, &["--jobs needs virtual time"]);
    for (option, words) in
        [("--threads", &["--threads", "2"][..]), ("--spin", &["--threads", "1", "--spin"][..])]
    {
        let words = [&["run", "e.yaml", "--cpu", "infinite"][..], words].concat();
        bed.thingbed(&words).expect(2, &[&format!("{option} needs real time"), "leave out"]);
    }
    bed.thingbed(&["run", "e.yaml", "--cpu", "0.3"]).expect(2, &["use infinite, or"]);
    bed.thingbed(&["run", "e.yaml", "--clock", "vrtual"]).expect(2, &["use real or virtual"]);
}

/// Ping's own results show the network and not the machine; files written by a program stay in the
/// guest.
#[test]
fn unmodified_programs_measure_the_network_alone_and_write_nothing_to_the_host() {
    let bed = Bed::new();
    let mark = format!("/var/tmp/thingbed-test-{}", std::process::id());
    let script = format!("ping -c 3 -i 0.5 b; touch {mark} && echo written; date +%Y-%m-%d");
    bed.write("e.yaml", &command(&format!("[sh, -c, \"{script}\"]")));
    let mut run = bed.command(&["run", "e.yaml", "--clock", "virtual"]);
    // Environment variables may contain bytes that are not UTF-8.
    run.env("OLDPWD", std::ffi::OsStr::from_bytes(b"/tmp/caf\xe9"));
    CommandOutput::of(run.output().unwrap()).expect(0, &["VALID"]);
    let output = fs::read_to_string(bed.sweep("one").join("programs/a.0.out")).unwrap();
    for line in output.lines().filter(|line| line.contains("time=")) {
        // The first one waits for the ARP answer of the neighbour.
        let time = line.split("time=").nth(1).unwrap().split(' ').next().unwrap();
        let time: f64 = time.parse().unwrap();
        assert!((60.0..60.5).contains(&time) || line.contains("icmp_seq=1"), "{output}");
    }
    assert_eq!(output.matches("time=").count(), 3, "{output}");
    assert!(output.contains("written\n2026-01-01"), "{output}");
    assert!(!Path::new(&mark).exists());
}

/// `verify` repeats the runs and reports later changes, in the results or in the experiment.
#[test]
fn verify_names_the_first_figure_that_differs() {
    let bed = Bed::new();
    bed.write("e.yaml", METERS);
    bed.thingbed(&["run", "e.yaml", "--clock", "virtual", "--seed", "9"]).expect(0, &["VALID"]);
    let folder = bed.sweep("meters");
    let words = ["verify", folder.to_str().unwrap()];
    // Files that are not results are ignored, and `.` is a valid folder.
    fs::create_dir(folder.join("cut-short")).unwrap();
    fs::write(folder.join("cut-short/notes"), "").unwrap();
    let here = folder.join(".").display().to_string();
    bed.thingbed(&["verify", &here]).expect(0, &["identical: all", "of 2 runs"]);
    // Runs with another clock or CPU cannot be in the same table.
    let resumed = |more: &[&str], words: &[&str]| {
        let run = ["run", "e.yaml", "--seed", "9", "--resume", folder.to_str().unwrap()];
        bed.thingbed(&[&run[..], more].concat()).expect(1, words);
    };
    resumed(&[], &["ran in virtual time", "add --clock virtual"]);
    resumed(&["--cpu", "1"], &["ran with the CPU infinite", "add --cpu infinite"]);
    let host = common::json(&folder.join("host.json"));
    assert!(host["runs"][1]["host_s"].as_f64() > Some(0.0), "{host:#}");
    assert!(host["runs"][1]["virtual_s"].as_f64() > Some(2.0), "{host:#}");
    // Nothing is left next to the sweep.
    assert_eq!(fs::read_dir(folder.parent().unwrap()).unwrap().count(), 1);
    let summary = folder.join("tcp-0/summary.json");
    let text = fs::read_to_string(&summary).unwrap();
    fs::write(&summary, text.replacen("\"sent\": 20", "\"sent\": 21", 1)).unwrap();
    let output = bed.thingbed(&words);
    let requested = ["the first is tcp-0/summary.json", "messages.sent: 21 then, 20 now"];
    output.expect(4, &requested);
    bed.write("e.yaml", &METERS.replace("loss: 10 %", "loss: 11 %"));
    bed.thingbed(&words).expect(1, &["e.yaml has changed since the sweep"]);
    bed.thingbed(&["verify", "."]).expect(1, &["/host.json: No such file", "in real time"]);
}

/// The guests of this process that still exist.
fn guests(tool: u32) -> usize {
    let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let name = format!("thingbed-guest-{tool:010}-");
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&name)).count()
}

/// Processes in the process group of the guest's kernel.
fn kernels_of(tool: u32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let is_one = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        let parent = rest.split(' ').nth(1).and_then(|parent| parent.parse().ok());
        stat.contains("(thingbed-linux)") && parent == Some(tool)
    };
    pids.filter(is_one).collect()
}

fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn killed_at_any_moment_nothing_runs_on_and_gc_removes_the_rest() {
    let bed = Bed::new();
    bed.write(
        "e.yaml",
        &command("[ping, -i, \"0.2\", b]").replace("duration: 3 s", "duration: 9000 s"),
    );
    let mut tool = bed.command(&["run", "e.yaml", "--clock", "virtual"]);
    let mut tool = tool.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let id = tool.id();
    await_that("a guest starts", || !kernels_of(id).is_empty());
    let kernel = kernels_of(id)[0];
    std::thread::sleep(Duration::from_secs(1));
    tool.kill().unwrap();
    tool.wait().unwrap();
    // The kernel leads a process group: itself, and a process for each program of the guest.
    let alive = || {
        let entries = fs::read_dir("/proc").unwrap().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()).any(|pid| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let rest: Vec<&str> =
                stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ').collect();
            let group = rest.get(2).and_then(|group| group.parse().ok());
            group == Some(kernel) && rest[0] != "Z"
        })
    };
    await_that("the guest ends with the tool", || !alive());
    assert_eq!(guests(id), 1);
    bed.thingbed(&["gc"]).expect(0, &["removed the folders of"]);
    assert_eq!(guests(id), 0);
}

#[test]
fn ctrl_c_reports_what_there_is_also_when_a_program_stops_the_clock() {
    let bed = Bed::new();
    let long = command("[ping, -i, \"0.2\", b]").replace("duration: 3 s", "duration: 9000 s");
    bed.write("long.yaml", &long);
    bed.write("spin.yaml", &command("[sh, -c, \"while :; do :; done\"]"));
    for (file, until, words) in [
        ("long.yaml", "running: ", &["INVALID", "the user stopped it"][..]),
        ("spin.yaml", "virtual time paused for 0:", &["`sh` computes", "no results"][..]),
    ] {
        let log = bed.path().join("log");
        let mut tool = bed.command(&["run", file, "--clock", "virtual"]);
        let out = fs::File::create(&log).unwrap();
        tool.stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
        let mut tool = tool.spawn().unwrap();
        await_that(until, || fs::read_to_string(&log).unwrap().contains(until));
        // As a terminal does: the signal goes to the whole process group.
        let group = interrupt_group(tool.id());
        assert!(group, "the group is there");
        let status = tool.wait().unwrap();
        let log = fs::read_to_string(&log).unwrap();
        assert_eq!(status.code(), Some(130), "{log}");
        for word in words {
            assert!(log.contains(word), "no `{word}` in:\n{log}");
        }
        assert_eq!(guests(tool.id()), 0);
    }
}

/// What failed before: a line that the host sent before the guest read its input was lost, so the run went on
/// to its end with exit status 0.
#[test]
fn ctrl_c_before_the_guest_has_started_stops_the_sweep() {
    let bed = Bed::new();
    bed.write("e.yaml", &command("[true]"));
    let log = bed.path().join("log");
    let mut tool = bed.command(&["run", "e.yaml", "--clock", "virtual"]);
    let out = fs::File::create(&log).unwrap();
    tool.stdout(out.try_clone().unwrap()).stderr(out).process_group(0);
    let mut tool = tool.spawn().unwrap();
    await_that("the run is announced", || fs::read_to_string(&log).unwrap().contains("[1/1]"));
    assert!(interrupt_group(tool.id()), "the group is there");
    let status = tool.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{}", fs::read_to_string(&log).unwrap());
    assert_eq!(guests(tool.id()), 0);
}

/// The memory of a guest is mapped as a whole.
#[test]
fn a_limit_of_the_address_space_is_named() {
    let bed = Bed::new();
    bed.write("e.yaml", &command("[true]"));
    let tool = bed.command(&["run", "e.yaml", "-q", "--clock", "virtual"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 800000 && exec \"$@\"", "sh"]).arg(tool.get_program());
    limited.args(tool.get_args()).current_dir(bed.path());
    limited.envs(tool.get_envs().filter_map(|(name, value)| Some((name, value?))));
    CommandOutput::of(limited.output().unwrap())
        .expect(1, &["could not map its memory", "ulimit -v unlimited"]);
}

fn interrupt_group(leader: u32) -> bool {
    let kill = Command::new("kill").args(["-INT", "--", &format!("-{leader}")]).status();
    kill.unwrap().success()
}

#[test]
fn a_program_that_fills_the_disk_of_a_guest_does_not_end_it() {
    let bed = Bed::new();
    let fill = "[sh, -c, \"dd if=/dev/zero of=/tmp/large bs=1M count=20000; rm /tmp/large; \
                head -c 3000000 /dev/zero | tr '\\\\0' x; echo; echo after\"]";
    let limited = command(fill).replace("a: {}", "a: {limits: {output: 256 KiB}}");
    bed.write("e.yaml", &limited);
    for cpu in ["infinite", "1"] {
        bed.thingbed(&["run", "e.yaml", "--cpu", cpu]).expect(0, &["VALID"]);
        let folder = bed.sweep("one");
        let file = |name: &str| fs::read_to_string(folder.join("programs").join(name)).unwrap();
        assert!(file("a.0.err").contains("No space left on device"), "{}", file("a.0.err"));
        // Its output has a limit, too, with the beginning and the end.
        let output = file("a.0.out");
        let [first, last] =
            [&output[..8.min(output.len())], &output[output.len().saturating_sub(12)..]];
        assert!(first.starts_with("xxx") && last.ends_with("xxx\nafter\n"), "{first:?} {last:?}");
        assert!(output.contains("B of output here: a log keeps 256 KiB]"));
        assert!(output.len() < 260 << 10, "{} B", output.len());
        fs::remove_dir_all(folder).unwrap();
    }
}

#[test]
fn a_file_that_a_guest_lacks_is_named_with_the_line_that_brings_it() {
    let bed = Bed::new();
    bed.write("e.yaml", &command("[sh, read.sh]"));
    bed.write("secret.txt", "here\n");
    bed.write("read.sh", "name=secret; read line <$name.txt; echo $line\n");
    let path = fs::canonicalize(bed.path()).unwrap().join("secret.txt");
    let path = path.display();
    let words = [format!("the guest lacks: {path}"), format!("files: [{path}]")];
    bed.thingbed(&["run", "e.yaml", "--cpu", "1"]).expect(0, &words.each_ref().map(String::as_str));
    // A named file is copied, also with a space in its name.
    let named = "name=\"my data\"; read line <\"$name.txt\"; echo $line\n";
    bed.write("read.sh", named);
    bed.write("my data.txt", "found\n");
    bed.write("e.yaml", &(command("[sh, read.sh]") + "files: [\"my data.txt\"]\n"));
    bed.thingbed(&["run", "e.yaml", "--cpu", "1"]).expect(0, &["VALID"]);
    let mut runs: Vec<_> = fs::read_dir(bed.path().join("runs/one")).unwrap().flatten().collect();
    runs.sort_by_key(|run| run.file_name());
    let output = runs.last().unwrap().path().join("programs/a.0.out");
    assert_eq!(fs::read_to_string(output).unwrap(), "found\n");
    for name in ["/", "/proc"] {
        bed.write("e.yaml", &(command("[sh, read.sh]") + &format!("files: [{name}]\n")));
        let words = ["which is no folder to copy"];
        bed.thingbed(&["run", "e.yaml", "--cpu", "1"]).expect(2, &words);
    }
    bed.write("e.yaml", &(command("[sh, read.sh]") + "files: [nowhere.txt]\n"));
    let words = ["`files` names nowhere.txt, which does not exist", "Thingbed looked for /"];
    bed.thingbed(&["run", "e.yaml", "--cpu", "1"]).expect(2, &words);
}

#[test]
fn a_guest_has_what_a_capture_filter_needs() {
    let bed = Bed::new();
    let ping = command("[ping, -c, 2, -i, \"0.2\", b]");
    bed.write("e.yaml", &(ping + "capture: {filter: icmp}\n"));
    bed.thingbed(&["run", "e.yaml", "--cpu", "1"]).expect(0, &["VALID"]);
    let capture = bed.sweep("one").join("capture.pcapng");
    let analysis = bed.thingbed(&["analyze", capture.to_str().unwrap(), "--json"]).expect(0, &[]);
    let found: Value = serde_json::from_str(&analysis.out).unwrap();
    // Two requests and two replies, each seen at both ends; and none of IPv6, which nodes send
    // when they start.
    let points = found["points"].as_array().unwrap();
    let packets: f64 = points.iter().map(|point| figure(point, ".packets")).sum();
    assert_eq!(packets, 8.0);
}
