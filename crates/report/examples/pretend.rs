//! Writes a generated sweep into a folder and generates its report, to view the page without
//! running an experiment: `cargo run -p report --example pretend -- FOLDER`. With `--draw` before
//! the folder, generates only the report of the sweep in it.

#[allow(dead_code, missing_docs)]
#[path = "../tests/fixture/mod.rs"]
mod fixture;

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let only_draw = arguments.first().is_some_and(|first| first == "--draw");
    let folder = PathBuf::from(arguments.pop().ok_or("give a folder")?);
    if !only_draw {
        let invention = fixture::Invention::default();
        invention.write(&folder);
        invention.write_beside(&folder);
    }
    let sweep = report::Sweep::read(&folder)?;
    print!("{}", report::terminal(&sweep, 190, false));
    report::write_html(&sweep, &folder.join("report.html"))?;
    Ok(())
}
