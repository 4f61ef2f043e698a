//! Resolves root file systems.

use crate::file::Group;
use crate::plan::PlannedRoot;
use crate::problem::Problem;
use crate::read::Sink;
use crate::resolve::payload::near_file;
use std::path::Path;

/// Root file system of a group's nodes, if it has one. The content of an archive is checked when a
/// run starts.
pub(super) fn of(group: &Group, base: &Path, sink: &mut Sink) -> Option<PlannedRoot> {
    let Some(root) = &group.root else {
        let keys = [
            ("image", group.image.as_ref().map(|at| at.place)),
            ("platform", group.platform.as_ref().map(|at| at.place)),
            ("root_limit", group.root_limit.as_ref().map(|at| at.place)),
        ];
        for (key, place) in keys.into_iter().filter_map(|(key, place)| Some((key, place?))) {
            let problem = Problem::new(format!("`{key}` without `root`")).at(place);
            sink.add(problem.label("add the image archive: `root: ARCHIVE`"));
        }
        return None;
    };
    let full = base.join(&root.value);
    let found = std::fs::metadata(&full);
    let why = match &found {
        Ok(found) if found.is_dir() || found.is_file() => None,
        Ok(_) => Some("is neither a folder nor a file".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some("does not exist".to_owned())
        }
        Err(error) => Some(format!("cannot be opened: {error}")),
    };
    if let Some(why) = why {
        let problem = Problem::new(format!("the root `{}` {why}", root.value)).at(root.place);
        let near = if found.is_ok() { None } else { near_file(&full) };
        let problem = match near {
            Some(near) => {
                let near = Path::new(&root.value).with_file_name(near);
                problem.label(format!("did you mean `{}`?", near.display()))
            }
            None => problem.label("use a folder, an archive of `docker save`, or an OCI layout"),
        };
        sink.add(problem.note(format!("Thingbed looked for {}", full.display())));
        return None;
    }
    if let (Some(image), true) = (&group.image, is_plain_folder(&full)) {
        let problem = Problem::new("a root folder has no images");
        sink.add(problem.at(image.place).label("remove `image`"));
    }
    let image = group.image.as_ref().map(|image| image.value.clone());
    let platform = group.platform.as_ref().and_then(|at| match at.value.parse() {
        Ok(platform) => Some(platform),
        Err(why) => {
            let label = "write for example `linux/arm64` or `linux/arm/v7`";
            sink.add(Problem::new(why).at(at.place).label(label));
            None
        }
    });
    let limit = group.root_limit.as_ref().map(|limit| limit.value);
    let path = std::path::absolute(&full).unwrap_or(full);
    Some(PlannedRoot { path, image, platform, limit })
}

/// Whether a root is a folder of files: it has no program of an image.
pub(super) fn is_plain_folder(path: &Path) -> bool {
    path.is_dir() && !path.join("oci-layout").is_file()
}
