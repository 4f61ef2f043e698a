//! The page to watch in a real browser, driven by Playwright.

mod common;

use common::Bed;
use common::live::Live;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// A Python with Playwright: that of `PLAYWRIGHT_PYTHON`, or the usual one.
fn python() -> Option<String> {
    let python = std::env::var("PLAYWRIGHT_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut command = Command::new(&python);
    command.args(["-c", "import playwright"]).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success()).then_some(python)
}

#[test]
fn a_browser_watches_and_changes_a_lab() {
    let browsers = ["chromium-headless-shell", "chromium", "google-chrome"];
    let browser = browsers.iter().any(|name| common::has(name));
    let (Some(python), true) = (python(), browser && common::has("ping")) else {
        eprintln!(
            "NOT RUN: needs Chromium, ping and Playwright for Python (pip install playwright; \
             PLAYWRIGHT_PYTHON names another Python)"
        );
        return;
    };
    let bed = Bed::new();
    let text = LAB.replace("LONG", &"x".repeat(3000));
    let lab = Live::up_with(&bed, "browser", &text, &["--page=./unused.sock"]);
    let mut page = lab.command(&["page"]);
    let mut page = page.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut output = std::io::BufReader::new(page.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut output, &mut line).unwrap();
    let url = line.trim().strip_prefix("page: ").expect("a URL");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page/browser.py");
    let folder =
        std::env::var("PAGE_PICTURES").unwrap_or_else(|_| bed.path().display().to_string());
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "600", &python]).arg(script).args([url, &folder]);
    let driven = command.output().unwrap();
    let _ = page.kill();
    let _ = page.wait();
    let (out, err) =
        (String::from_utf8_lossy(&driven.stdout), String::from_utf8_lossy(&driven.stderr));
    println!("{out}");
    assert!(driven.status.success(), "{out}{err}");
}
