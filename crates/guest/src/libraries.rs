//! The shared libraries that a program needs, found as the dynamic loader finds them
//! (ld.so(8)), without running the program.

use elf::ElfBytes;
use elf::abi::{DT_NEEDED, DT_RPATH, DT_RUNPATH, PT_INTERP};
use elf::endian::AnyEndian;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders that the loader searches last.
const USUAL: [&str; 6] = [
    "/lib",
    "/usr/lib",
    "/lib64",
    "/usr/lib64",
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
];

/// The loader's cache, read once.
#[derive(Debug, Default)]
pub(crate) struct Libraries(Option<HashMap<String, PathBuf>>);

impl Libraries {
    /// The interpreter and the libraries that the ELF file at `path` names. Omits missing
    /// libraries: the loader reports them. Empty if the file is not a complete ELF file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(&mut self, path: &Path) -> io::Result<Vec<PathBuf>> {
        let bytes = std::fs::read(path)?;
        let Ok(file) = ElfBytes::<AnyEndian>::minimal_parse(&bytes) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        let segments = file.segments().into_iter().flatten();
        for segment in segments.filter(|segment| segment.p_type == PT_INTERP) {
            let name = file.segment_data(&segment).unwrap_or_default();
            let name = String::from_utf8_lossy(name);
            all.push(PathBuf::from(name.trim_end_matches('\0')));
        }
        let text = |offset: u64| {
            let (_, strings) = file.dynamic_symbol_table().ok()??;
            strings.get(usize::try_from(offset).ok()?).ok().map(str::to_owned)
        };
        let dynamic = file.dynamic().ok().flatten();
        let tags = |requested: i64| -> Vec<String> {
            let entries = dynamic.iter().flat_map(|table| table.iter());
            entries
                .filter(|entry| entry.d_tag == requested)
                .filter_map(|e| text(e.d_val()))
                .collect()
        };
        let own = path.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
        // The search order of ld.so(8) but for one thing: RUNPATH comes after LD_LIBRARY_PATH
        // there. A wrong choice only adds a file.
        let paths = [tags(DT_RPATH), tags(DT_RUNPATH)].concat();
        let folders: Vec<PathBuf> = paths
            .iter()
            .flat_map(|list| list.split(':'))
            .map(|folder| folder.replace("$ORIGIN", &own).replace("${ORIGIN}", &own).into())
            .chain(std::env::split_paths(&std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default()))
            .collect();
        all.extend(tags(DT_NEEDED).iter().filter_map(|name| self.find(name, &folders)));
        Ok(all)
    }

    fn find(&mut self, name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
        if name.contains('/') {
            return Some(PathBuf::from(name));
        }
        let there = |folder: &Path| Some(folder.join(name)).filter(|path| path.is_file());
        folders
            .iter()
            .find_map(|folder| there(folder))
            .or_else(|| self.0.get_or_insert_with(cache).get(name).cloned())
            .or_else(|| USUAL.iter().find_map(|folder| there(Path::new(folder))))
    }
}

/// The file of the library with this name, e.g. `libc.so.6`, which a program loads only when it
/// needs it, so that its file does not name it.
pub fn library(name: &str) -> Option<PathBuf> {
    let given = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&given).collect();
    Libraries::default().find(name, &folders)
}

/// The 64-bit libraries that `ldconfig -p` lists.
fn cache() -> HashMap<String, PathBuf> {
    let programs = ["/sbin/ldconfig", "/usr/sbin/ldconfig", "ldconfig"];
    let output = programs.iter().find_map(|program| Command::new(program).arg("-p").output().ok());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let mut found = HashMap::new();
    for line in text.unwrap_or_default().lines() {
        // `libc.so.6 (libc6,x86-64) => /lib/x86_64-linux-gnu/libc.so.6`
        if let Some((name, path)) = line.trim().split_once(" => ")
            && let Some((name, kind)) = name.split_once(" (")
            && kind.contains("x86-64")
        {
            // The first one counts, as for the loader.
            found.entry(name.to_owned()).or_insert_with(|| PathBuf::from(path));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_found_by_its_name() {
        let libc = library("libc.so.6").unwrap();
        assert!(libc.is_absolute() && libc.is_file(), "{}", libc.display());
        assert_eq!(library("libnone.so.0"), None);
    }
}
