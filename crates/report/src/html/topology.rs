//! A drawing of groups, networks and links.

use super::escape::escape;
use super::page::{Page, View};
use crate::{GroupLink, Topology};
use std::fmt::Write as _;

// Units of the drawing's own coordinates; the browser scales it to the width of the page.
const WIDTH: i32 = 980;
const BOX: i32 = 170;
const NETWORK: i32 = 210;
/// Height of one link with the text on both sides of its line, in pixels.
const ROW: i32 = 132;

/// One drawing per distinct topology.
pub(super) fn section(page: &mut Page, view: &View<'_>) {
    let mut drawn: Vec<(&Topology, Vec<String>)> = Vec::new();
    for panel in &view.panels.panels {
        for (cell, _) in &panel.cells {
            let Some(run) = view.cells[*cell].runs.first() else { continue };
            let name =
                if panel.name.is_empty() { run.summary.cell.label() } else { panel.name.clone() };
            // Cells that differ in a workload only have one drawing.
            let same = |known: &Topology| {
                known.groups == run.topology.groups
                    && known.networks == run.topology.networks
                    && known.links == run.topology.links
                    && known.boundaries == run.topology.boundaries
            };
            if run.topology.groups.is_empty() {
                continue;
            }
            match drawn.iter_mut().find(|(known, _)| same(known)) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => drawn.push((&run.topology, vec![name])),
            }
        }
    }
    if drawn.is_empty() {
        return;
    }
    page.section("topology", "Topology");
    page.paragraph(
        "Groups of nodes on the sides, the network between them. The text above a line lists the \
         impairments of frames going right, the text below of frames going left.",
    );
    for (topology, names) in drawn {
        page.heading(&names.join(", "));
        let _ = write!(page.body, "<div class=\"table\">{}</div>", draw(topology));
        for (group, words) in &topology.boundaries {
            page.paragraph(&format!("Programs of {group}: {words}."));
        }
    }
}

/// A link from a group to a network, and its position.
struct Row<'a> {
    link: &'a GroupLink,
    y: i32,
    left: bool,
}

fn draw(topology: &Topology) -> String {
    // The first group is on the left: usually the others talk to it.
    let first = topology.groups.first().map(|(name, _)| name.as_str());
    let (mut rows, mut depth) = (Vec::new(), [0, 0]);
    for link in &topology.links {
        let left = Some(link.group.as_str()) == first;
        let side = &mut depth[usize::from(left)];
        rows.push(Row { link, y: 20 + *side * ROW + ROW / 2, left });
        *side += 1;
    }
    let deepest = depth[0].max(depth[1]).max(1);
    let height = 40 + deepest * ROW;
    // Centre a side with fewer rows vertically.
    for row in &mut rows {
        row.y += (deepest - depth[usize::from(row.left)]) * ROW / 2;
    }
    let mut svg = format!(
        "<svg class=\"topology\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"Groups of nodes and the network between them\">\n"
    );
    let middle = WIDTH / 2;
    for row in &rows {
        svg += &line(row, middle);
    }
    let networks = i32::try_from(topology.networks.len().max(1)).unwrap_or(1);
    for (place, (name, words)) in (0..).zip(&topology.networks) {
        let top = 20 + place * (height - 40) / networks;
        let tall = (height - 40) / networks - 8;
        let _ = write!(
            svg,
            "<rect class=\"net\" x=\"{}\" y=\"{top}\" width=\"{NETWORK}\" height=\"{tall}\" rx=\"10\"/>",
            middle - NETWORK / 2
        );
        let lines = std::iter::once((name, "name")).chain(words.iter().map(|word| (word, "")));
        let count = i32::try_from(words.len()).unwrap_or(0);
        let mut y = top + tall / 2 - count * 9 + 4;
        for (text, class) in lines {
            svg += &text_at(middle, y, "middle", class, text);
            y += 19;
        }
    }
    for row in &rows {
        svg += &group(row, topology);
    }
    svg + "</svg>\n"
}

fn text_at(x: i32, y: i32, anchor: &str, class: &str, text: &str) -> String {
    let text = escape(text);
    format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

fn line(row: &Row<'_>, middle: i32) -> String {
    let (from, to) = if row.left {
        (20 + BOX, middle - NETWORK / 2)
    } else {
        (middle + NETWORK / 2, WIDTH - 20 - BOX)
    };
    let (y, centre) = (row.y, i32::midpoint(from, to));
    let mut svg = format!("<path class=\"link\" d=\"M{from} {y}H{to}\"/>\n");
    // For groups on the left, right is into the network.
    let (right, left) =
        if row.left { (&row.link.up, &row.link.down) } else { (&row.link.down, &row.link.up) };
    let count = |lines: &[String]| i32::try_from(lines.len().max(1)).unwrap_or(1);
    let mut above = y - 9 - (count(right) - 1) * 17;
    for text in with_arrow("→ ", right) {
        svg += &text_at(centre, above, "middle", "", &text);
        above += 17;
    }
    let mut below = y + 20;
    for text in with_arrow("← ", left) {
        svg += &text_at(centre, below, "middle", "", &text);
        below += 17;
    }
    svg
}

fn with_arrow(arrow: &str, lines: &[String]) -> Vec<String> {
    match lines {
        [] => vec![format!("{arrow}no impairments")],
        [first, rest @ ..] => {
            let mut all = vec![format!("{arrow}{first}")];
            all.extend(rest.iter().cloned());
            all
        }
    }
}

fn group(row: &Row<'_>, topology: &Topology) -> String {
    let x = if row.left { 20 } else { WIDTH - 20 - BOX };
    let top = row.y - 36;
    let mut svg = String::new();
    // Draw a group of several nodes as a stack.
    let pile = if row.link.count > 1 { 2 } else { 0 };
    // From the back to the front, which covers the others.
    for place in (0..=pile).rev() {
        let shift = place * 5;
        let _ = write!(
            svg,
            "<rect class=\"group\" x=\"{}\" y=\"{}\" width=\"{BOX}\" height=\"72\" rx=\"8\"/>",
            x + if row.left { -shift } else { shift },
            top - shift
        );
    }
    let centre = x + BOX / 2;
    svg += &text_at(centre, row.y - 4, "middle", "name", &row.link.group);
    let all = topology.groups.iter().find(|(name, _)| *name == row.link.group);
    let count = match (row.link.count, all) {
        (1, _) => "1 node".to_owned(),
        (some, Some((_, all))) if some < *all => format!("{some} of {all} nodes"),
        (some, _) => format!("{some} nodes"),
    };
    svg += &text_at(centre, row.y + 17, "middle", "", &count);
    svg
}
