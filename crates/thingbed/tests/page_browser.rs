//! The page to watch, and the report, in a real browser, driven by Playwright.

mod common;

use common::Bed;
use common::live::Live;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const LAB: &str = "experiment: NAME
nodes:
  server:
    run: [sh, -c, 'printf \"<b>begun</b>\\n\\033[2Jcleared\\n\"; while :; do sleep 0.1; done', \"\\u202e<i>evil</i>\", LONG]
    ready: {log: begun}
  meter: {count: 2}
  constructor: {}
networks:
  lan: {attach: [server, meter, constructor], subnet: 10.1.0.0/24, links: {meter: {up: {delay: 20 ms}}}}
";

/// Values that spreadsheets or browsers could run, in a matrix of twelve cells. In virtual time, in
/// which each run is valid.
const MATRIX: &str = r#"experiment: report
nodes: {utility: {}, meter: {count: 2}}
networks:
  field:
    attach: [utility, meter]
    subnet: 10.0.0.0/24
    links: {meter: {up: {delay: 10 ms, loss: "${loss}"}, down: {delay: 10 ms}}}
models:
  udp: {down: udp/request-response, up: udp/request-response, every: 0.2 s, drain: 1 s}
  tcp: {down: tcp/router-dealer, up: tcp/request-reply, every: 0.2 s, drain: 1 s}
workloads:
  - command: {name: note, on: meter, run: [sh, -c, "true # ${note}"]}
  - interaction: {name: price, source: utility, sinks: meter, model: "${model}", payload: payload.xml, count: 20}
matrix:
  model: [udp, tcp]
  loss: [0 %, 10 %, 20 %]
  note: ["=1+1", "<img src=x onerror=document.title='evil'>"]
seed: 7
"#;

/// A Python with Playwright: that of `PLAYWRIGHT_PYTHON`, or the usual one.
fn python() -> Option<String> {
    let python = std::env::var("PLAYWRIGHT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    command.args(["-c", "import playwright"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(python)
}

/// Drives the browser by a script of `tests/page`, if the machine has what this needs. `target`
/// makes what the browser opens.
fn drive(bed: &Bed, script: &str, target: impl FnOnce() -> String) {
    let browsers = ["chromium-headless-shell", "chromium", "google-chrome"];
    let browser = browsers.iter().any(|name| common::has(name));
    let (Some(python), true) = (python(), browser && common::has("ping")) else {
        eprintln!(
            "NOT RUN: needs Chromium, ping and Playwright for Python (pip install playwright; \
             PLAYWRIGHT_PYTHON names another Python)"
        );
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page").join(script);
    let folder =
        std::env::var("PAGE_PICTURES").unwrap_or_else(|_| bed.path().display().to_string());
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "600", &python]).arg(script).args([&target(), &folder]);
    // No bytecode in the source folder.
    let driven = command.env("PYTHONDONTWRITEBYTECODE", "1").output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    println!("{out}");
    assert!(driven.status.success(), "{out}{err}");
}

#[test]
fn a_browser_watches_and_changes_a_lab() {
    let bed = Bed::new();
    let text = LAB.replace("LONG", &"x".repeat(3000));
    let mut started = None;
    drive(&bed, "browser.py", || {
        let lab = Live::up_with(&bed, "browser", &text, &["--page=./unused.sock"]);
        let mut page = lab.command(&["page"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(page.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        started = Some((lab, Stopped(page), output));
        line.trim().strip_prefix("page: ").expect("a URL").to_owned()
    });
}

/// A process that ends with its test.
struct Stopped(Child);

impl Drop for Stopped {
    fn drop(&mut self) {
        // It has ended if the lab has.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_browser_reads_a_report() {
    let bed = Bed::new();
    let file = bed.write("report.yaml", MATRIX).display().to_string();
    drive(&bed, "report.py", || {
        bed.thingbed(&["run", &file, "--clock", "virtual"]).expect(0, &["report: "]);
        bed.sweep("report").join("report.html").display().to_string()
    });
}
