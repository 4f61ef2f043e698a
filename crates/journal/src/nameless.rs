//! Files for data that a process needs only while it runs.

use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The name for the moment between creation and removal. Readers of a run folder skip names with a dot.
const NAME: &str = ".nameless";

/// A new file without a name in `folder`, to read and write: it is gone with the process.
///
/// # Errors
/// When it cannot be created.
pub fn nameless(folder: &Path) -> io::Result<File> {
    let path = folder.join(NAME);
    // That of a process that was killed between the next two calls.
    let _ = fs::remove_file(&path);
    // `create_new` follows no symbolic link that somebody put there.
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, symlink};

    #[test]
    fn files_of_one_folder_are_different_and_have_no_name() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("other");
        fs::write(&other, "of the user").unwrap();
        symlink(&other, dir.path().join(NAME)).unwrap();
        let files = [nameless(dir.path()).unwrap(), nameless(dir.path()).unwrap()];
        for (file, text) in files.iter().zip([b"1", b"2"]) {
            file.write_all_at(text, 0).unwrap();
        }
        for (file, text) in files.iter().zip([b"1", b"2"]) {
            let mut read = [0];
            file.read_exact_at(&mut read, 0).unwrap();
            assert_eq!(&read, text);
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "of the user");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        assert!(nameless(&dir.path().join("none")).is_err());
    }
}
