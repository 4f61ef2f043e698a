//! Numbers of services: replicas, limits and ports.

use super::reader::{Reader, get, list, text, text_of};
use super::text::scalar;
use super::variables::Expanded;
use crate::limits::{LEAST_CPUS, NODES};
use crate::tree::Node;
use units::Bytes;

/// Least memory of a node, B.
const MIN_MEMORY: u64 = 1 << 20;

/// The number of nodes of a service, which is `what`.
pub(super) fn count(node: &Node, what: &str, reader: &mut Reader) -> Option<Expanded> {
    let fits = |text: &str| text.trim().parse::<u32>().is_ok_and(|count| count <= *NODES.end());
    reader.number(node, &format!("the replicas of {what}"), fits)
}

/// Limits of CPU and memory of a service, which is `what`, as YAML.
pub(super) fn limits(service: &Node, what: &str, reader: &mut Reader) -> Option<String> {
    let resources = get(service, "deploy").and_then(|deploy| get(deploy, "resources"));
    let resources = resources.and_then(|resources| get(resources, "limits"));
    let of = |key: &str, old: &str| {
        resources.and_then(|limits| get(limits, key)).or_else(|| get(service, old))
    };
    let cpus = of("cpus", "cpus").and_then(|node| {
        let is_no_limit = |text: &str| text.trim().parse() == Ok(0.0);
        let fits = |text: &str| {
            let cpus = text.trim().parse().ok().filter(|cpus: &f64| cpus.is_finite());
            is_no_limit(text) || cpus.is_some_and(|cpus| cpus >= LEAST_CPUS)
        };
        let cpus = reader.number(node, &format!("`cpus` of {what}"), fits)?;
        (!is_no_limit(&cpus.plain)).then(|| format!("cpus: {}", scalar(cpus.text.trim())))
    });
    let memory = of("memory", "mem_limit").and_then(|node| {
        let what = format!("the limit of memory of {what}");
        let given = reader.with_defaults(text(node).unwrap_or_default(), &what, node.place);
        let size = memory(given.trim());
        if size.is_none() && given.trim() != "0" {
            reader.note(node.place, format!("{what}: `{given}` is left out"));
        }
        size.map(|size| format!("memory: {size}"))
    });
    let all: Vec<String> = cpus.into_iter().chain(memory).collect();
    (!all.is_empty()).then(|| format!("{{{}}}", all.join(", ")))
}

/// A size such as `64m`, in powers of 1024.
fn memory(text: &str) -> Option<String> {
    let lower = text.to_ascii_lowercase();
    let unit = lower.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number = &lower[..lower.len() - unit.len()];
    // Compose accepts `m` as well as `mb`.
    let unit = match unit.trim().trim_end_matches('b') {
        "" => "B",
        "k" => "KiB",
        "m" => "MiB",
        "g" => "GiB",
        _ => return None,
    };
    let size = format!("{number} {unit}");
    size.parse().ok().filter(|bytes: &Bytes| bytes.get() >= MIN_MEMORY).map(|_| size)
}

/// The first TCP port in the container, of a service, which is `what`.
pub(super) fn ready(ports: &Node, what: &str, reader: &mut Reader) -> Option<u16> {
    list(ports).into_iter().find_map(|port| {
        let given = match text_of(port, "target") {
            Some(target) if text_of(port, "protocol").is_none_or(|p| p == "tcp") => target,
            Some(_) => return None,
            None => text(port)?,
        };
        let what = format!("a port of {what}");
        let shown = reader.with_defaults(given, &what, port.place);
        // `ADDRESS:HOST:CONTAINER/PROTOCOL`; only the last part is needed, and the address may have
        // colons.
        let inside = shown.rsplit(':').next()?;
        let inside = match inside.split_once('/') {
            Some((inside, "tcp")) => inside,
            Some(_) => return None,
            None => inside,
        };
        let first = inside.split_once('-').map_or(inside, |(first, _)| first).trim();
        let found = first.parse().ok().filter(|port| *port > 0);
        if found.is_none() {
            let text = format!("{what}: `{given}` is no port; set `ready: {{tcp: PORT}}` by hand");
            reader.note(port.place, text);
        }
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_compose() {
        for (text, expected) in [
            ("50m", Some("50 MiB")),
            ("1.5gb", Some("1.5 GiB")),
            ("2097152", Some("2097152 B")),
            ("1k", None),
            (".", None),
            ("5x", None),
            ("99999999999999999999g", None),
            ("1m, nat: true", None),
        ] {
            assert_eq!(memory(text).as_deref(), expected, "{text}");
        }
    }
}
