//! `thingbed link`: shows and changes the links of a running lab.

use crate::arguments::{Lab, Link, LinkSelector, LinkShow};
use crate::live::{find, pairs};
use crate::{Status, complain, remark, say};
use link::{Direction, Impairment, Quantity};
use runner::{Links, Reply, Request, Shown};

/// Sends the request to the lab and prints the answer.
pub fn link(what: &Link) -> Result<Status, String> {
    let (lab, request) = match request(what) {
        Ok(request) => request,
        Err(error) => {
            complain(error);
            return Ok(Status::Wrong);
        }
    };
    match find(lab)?.ask(&request)? {
        Reply::Links(links) if matches!(what, Link::Show(which) if which.json) => {
            say(serde_json::to_string_pretty(&links).unwrap_or_default());
        }
        Reply::Links(links) => links.iter().for_each(show),
        Reply::Wrong(why) => {
            complain(why);
            return Ok(Status::Wrong);
        }
        _ => {}
    }
    Ok(Status::Fine)
}

fn show(shown: &Shown) {
    let way = if shown.way == Direction::Up { "up  " } else { "down" };
    let mut text = match &shown.target {
        Some(_) => rounded(&shown.now).text(),
        None => shown.now.text(),
    };
    if shown.down {
        text = format!("DOWN ({text})");
    }
    if let Some(target) = &shown.target {
        text += &format!("  -> {}", target.text());
    }
    if shown.rejected > 0 {
        let frames = if shown.rejected == 1 { "frame" } else { "frames" };
        text += &format!(
            "  [{} {frames} rejected: too long, or source address of another node]",
            shown.rejected
        );
    }
    say(format_args!("{} {} {way}  {text}", shown.node, shown.network));
    for ended in &shown.ended {
        remark(format_args!(
            "note: {} {} {}: the gradual change to {ended} was not complete; this change replaces it",
            shown.node,
            shown.network,
            way.trim_end()
        ));
    }
}

/// Rounds values for display: during a ramp they have many digits.
fn rounded(now: &Impairment) -> Impairment {
    let mut now = now.clone();
    for key in Impairment::all_keys() {
        let Some(quantity) = now.quantity(key.name) else { continue };
        let value = quantity.get();
        let rounded = match &quantity {
            Quantity::Time(_) => (value / 1e4).floor() * 1e4,
            Quantity::Share(_) => (value * 1e4).round() / 1e4,
            Quantity::Rate(_) => (value / 1e3).floor() * 1e3,
        };
        quantity.set(rounded);
    }
    now
}

fn request(what: &Link) -> Result<(&Lab, Request), String> {
    Ok(match what {
        Link::Show(LinkShow { which, .. }) => {
            (&which.lab, Request::Show { nodes: which.nodes.clone() })
        }
        Link::Set { selector, set, over } => {
            let (links, set) = (links(selector), pairs(set)?);
            if let Some((key, value)) = set.iter().find(|(key, _)| OPTIONS.contains(&key.as_str()))
            {
                return Err(format!(
                    "`{key}` is an option and no key of an impairment: write `--{key} {value}`"
                ));
            }
            (&selector.lab, Request::Set { links, set, over: *over })
        }
        Link::Down { selector } => {
            (&selector.lab, Request::Down { links: links(selector), down: true })
        }
        Link::Up { selector } => {
            (&selector.lab, Request::Down { links: links(selector), down: false })
        }
    })
}

/// Options of `link set` that may be taken for keys.
const OPTIONS: [&str; 3] = ["over", "way", "network"];

fn links(selector: &LinkSelector) -> Links {
    let way = selector
        .way
        .as_deref()
        .map(|way| if way == "up" { Direction::Up } else { Direction::Down });
    Links { nodes: vec![selector.node.clone()], network: selector.network.clone(), way }
}
