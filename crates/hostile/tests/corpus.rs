//! Feeds what the fuzzer has found worth keeping to the functions that the fuzzer calls, so that what
//! was once right stays so without a nightly compiler.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Limit of the corpus of one target in bytes: it is a part of the repository.
const MOST_BYTES: u64 = 64 << 10;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

fn inputs(of: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(corpus().join(of)).unwrap_or_else(|error| panic!("{of}: {error}"));
    let mut inputs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    inputs
}

/// What is printed before an input is that of the failure.
#[test]
fn every_input_of_the_corpus_is_taken() {
    for (name, _) in hostile::TARGETS {
        let inputs = inputs(name);
        assert!(!inputs.is_empty(), "{name} has no corpus");
        for input in inputs {
            println!("{}", input.display());
            hostile::feed(name, &fs::read(&input).unwrap());
        }
    }
}

/// Each input with its end cut off and with a byte changed: a few of what the fuzzer would try next.
#[test]
fn so_is_a_damaged_one() {
    for (name, _) in hostile::TARGETS {
        for input in inputs(name).into_iter().take(20) {
            let bytes = fs::read(&input).unwrap();
            for step in 1..4 {
                let place = bytes.len() * step / 4;
                let mut changed = bytes.clone();
                changed.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 0x81);
                println!("{} damaged at {place}", input.display());
                hostile::feed(name, &bytes[..place]);
                hostile::feed(name, &changed);
            }
        }
    }
}

#[test]
fn targets_programs_and_corpora_are_the_same_ones() {
    let targets: BTreeSet<String> =
        hostile::TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names = |folder: PathBuf| -> BTreeSet<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(corpus()), targets);
    assert_eq!(names(corpus().join("../targets")), targets);
    for name in &targets {
        let size: u64 = inputs(name).iter().map(|input| fs::metadata(input).unwrap().len()).sum();
        assert!(size <= MOST_BYTES, "the corpus of {name} has {size} B");
    }
}
