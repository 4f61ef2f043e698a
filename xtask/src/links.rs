//! Links between pages: the file and the section that they name must exist.

use std::collections::{BTreeMap, BTreeSet};

/// Links to files or sections that do not exist, a line each. `exists` says whether the tree has a
/// file or folder.
pub fn problems(files: &BTreeMap<String, String>, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let pages = || files.iter().filter(|(name, _)| name.ends_with(".md"));
    let anchors: BTreeMap<&String, BTreeSet<String>> =
        pages().map(|(name, text)| (name, headings(text).collect())).collect();
    let mut found = Vec::new();
    for (name, text) in pages() {
        for (number, line) in prose(text) {
            for link in links(line) {
                let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
                let path = if path.is_empty() { name.clone() } else { joined(name, path) };
                // Only pages have headings: lines of other files are not checked.
                let has_anchor = anchor.is_empty()
                    || anchors.get(&path).is_none_or(|known| known.contains(anchor));
                let what = match (exists(&path), has_anchor) {
                    (true, true) => continue,
                    (true, false) => "section",
                    (false, _) => "file",
                };
                found.push(format!("{name}:{number}: no {what} for the link `{link}`"));
            }
        }
    }
    found
}

/// Files and folders of the tree that a page links to.
pub fn targets(name: &str, text: &str) -> impl Iterator<Item = String> {
    let paths = prose(text).flat_map(|(_, line)| links(line));
    let paths = paths.filter_map(|link| link.split('#').next()).filter(|path| !path.is_empty());
    paths.map(move |path| joined(name, path))
}

/// Anchors of the headings of a page, as GitHub and mdBook make them.
pub fn headings(text: &str) -> impl Iterator<Item = String> {
    let headings = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    headings.map(|line| {
        let kept = line.trim_start_matches('#').trim().chars();
        let kept = kept.filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.flat_map(|c| if c == ' ' { '-' } else { c }.to_lowercase()).collect()
    })
}

/// Lines outside blocks of code, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Targets of links within the tree.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    // `https:` leads out of the tree, and text with a space is no link.
    targets.filter(|target| !target.contains(':') && !target.contains(' ') && !target.is_empty())
}

/// `link` in the page `from`, as a path in the tree.
fn joined(from: &str, link: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            ".." => drop(parts.pop()),
            "." | "" => {}
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_headings() {
        let anchors = |text| headings(text).collect::<Vec<_>>();
        let text = "# A\n\n### What a `node` does: one-way!\n\ntext\n";
        assert_eq!(anchors(text), ["a", "what-a-node-does-one-way"]);
        assert_eq!(anchors("## A_b\n```yaml\n# no heading\n```\n"), ["a_b"]);
    }

    #[test]
    fn a_link_names_a_file_and_a_section() {
        let page = |text: &str| {
            let a = ("docs/a.md".to_owned(), text.to_owned());
            let b = ("docs/x/b.md".to_owned(), "# One two\n[a](../a.md#top)\n".to_owned());
            let files = BTreeMap::from([a, b]);
            problems(&files, |path| files.contains_key(path) || path == "docs/x")
        };
        let good = "# Top\n[b](x/b.md#one-two) [c](#top) [d](x) [e](https://e.org/#f)\n";
        assert_eq!(page(good), Vec::<String>::new());
        assert_eq!(
            page("# Top\n[b](x/b.md#two)\n"),
            ["docs/a.md:2: no section for the link `x/b.md#two`"]
        );
        assert_eq!(page("# Top\n[b](b.md)\n"), ["docs/a.md:2: no file for the link `b.md`"]);
        assert_eq!(page("# Other\n"), ["docs/x/b.md:2: no section for the link `../a.md#top`"]);
        assert_eq!(page("# Top\n```sh\n[b](b.md)\n```\n"), Vec::<String>::new());
    }
}
