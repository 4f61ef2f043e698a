//! The command `link`: links of a running lab, looked at and changed.

use crate::arguments::{Lab, Link, Whose};
use crate::live::find;
use crate::{Status, complain, say};
use medium::{Overlay, Way};
use runner::{Links, Reply, Request, Shown};
use serde_json::{Map, Value};

/// Asks the lab, and shows what it says.
pub fn link(what: &Link) -> Result<Status, String> {
    let (lab, request) = match request(what) {
        Ok(request) => request,
        Err(error) => {
            complain(error);
            return Ok(Status::Wrong);
        }
    };
    if let Reply::Links(links) = find(lab)?.ask(&request)? {
        links.iter().for_each(show);
    }
    Ok(Status::Fine)
}

fn show(shown: &Shown) {
    let way = if shown.way == Way::Up { "up  " } else { "down" };
    let asked = experiment::describe(&shown.asked);
    say(format_args!("{} {} {way}  {asked}", shown.node, shown.network));
}

fn request(what: &Link) -> Result<(&Lab, Request), String> {
    Ok(match what {
        Link::Show(which) => (&which.lab, Request::Show { nodes: which.nodes.clone() }),
        Link::Set { whose, set, over } => {
            let (links, set) = (links(whose), overlay(set)?);
            (&whose.lab, Request::Set { links, set, over: *over })
        }
        Link::Down { whose } => (&whose.lab, Request::Down { links: links(whose), down: true }),
        Link::Up { whose } => (&whose.lab, Request::Down { links: links(whose), down: false }),
    })
}

fn links(whose: &Whose) -> Links {
    let way = whose.way.as_deref().map(|way| if way == "up" { Way::Up } else { Way::Down });
    Links { nodes: vec![whose.node.clone()], network: whose.network.clone(), way }
}

/// `loss=10%` and the like; a number without a unit, as a queue's, is a number.
fn overlay(set: &[String]) -> Result<Overlay, String> {
    let mut keys = Map::new();
    for pair in set {
        let Some((key, value)) = pair.split_once('=') else {
            return Err(format!("`{pair}` is no KEY=VALUE; write for example `loss=10%`"));
        };
        let value = match (value, value.parse::<i64>()) {
            ("", _) => Value::Null,
            ("true", _) => true.into(),
            ("false", _) => false.into(),
            (_, Ok(number)) => number.into(),
            (text, _) => text.into(),
        };
        keys.insert(key.to_owned(), value);
    }
    Ok(Overlay(keys))
}
