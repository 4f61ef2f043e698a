//! Any bytes as the files of a run folder.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|files: (Vec<u8>, Vec<u8>, Vec<u8>, Vec<u8>)| {
    let dir = std::env::temp_dir().join(format!("thingbed-fuzz-{}", std::process::id()));
    let _ = std::fs::create_dir_all(&dir);
    let names = ["summary.json", "run.json", "messages.parquet", "links.parquet"];
    for (name, bytes) in names.iter().zip([&files.0, &files.1, &files.2, &files.3]) {
        let _ = std::fs::write(dir.join(name), bytes);
    }
    if let Ok(sweep) = report::Sweep::read(&dir) {
        let _ = report::terminal(&sweep, 100, false);
        let _ = report::write_html(&sweep, &dir.join("report.html"));
    }
});
