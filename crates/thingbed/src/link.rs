//! The command `link`: links of a running lab, looked at and changed.

use crate::arguments::{Lab, Link, Whose};
use crate::{Status, complain, remark, say};
use medium::{Overlay, Way};
use runner::{Links, Reply, Request, Shown};
use serde_json::{Map, Value};

/// Asks the lab, and shows what it says.
pub fn link(what: &Link) -> Status {
    let (lab, request) = match request(what) {
        Ok(request) => request,
        Err(error) => {
            complain(error);
            return Status::Wrong;
        }
    };
    let answered = find(lab).and_then(|pid| {
        runner::ask(pid, &request).map_err(|error| {
            format!(
                "could not reach the lab of process {pid}: {error}\n  \
                 it may have just ended; `thingbed link show` finds the one that runs"
            )
        })
    });
    match answered {
        Ok(Reply::Links(links)) => {
            links.iter().for_each(show);
            Status::Fine
        }
        Ok(Reply::Refused(why)) => {
            complain(why);
            Status::Failed
        }
        Err(error) => {
            complain(error);
            Status::Failed
        }
    }
}

fn show(shown: &Shown) {
    let way = if shown.way == Way::Up { "up  " } else { "down" };
    let asked = experiment::describe(&shown.asked);
    say(format_args!("{} {} {way}  {asked}", shown.node, shown.network));
}

fn request(what: &Link) -> Result<(&Lab, Request), String> {
    Ok(match what {
        Link::Show { node, lab } => (lab, Request::Show { node: node.clone() }),
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
    Links { node: whose.node.clone(), network: whose.network.clone(), way }
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

/// The one lab that runs, or the one that was named.
fn find(lab: &Lab) -> Result<u32, String> {
    let labs = runner::labs().map_err(|error| format!("could not look for labs: {error}"))?;
    match (lab.lab, &labs[..]) {
        (Some(pid), labs) if labs.contains(&pid) => Ok(pid),
        (Some(pid), _) => Err(format!(
            "no lab runs in process {pid}\n  {}",
            match labs.is_empty() {
                true => "none runs at all".to_owned(),
                false => format!("labs run in {}", list(&labs)),
            }
        )),
        (None, [one]) => Ok(*one),
        (None, []) => Err("no lab runs on this machine\n  \
                           links can be changed while `thingbed run` is at work"
            .to_owned()),
        (None, several) => {
            remark("several labs run; say which with --lab");
            Err(format!("labs run in the processes {}", list(several)))
        }
    }
}

fn list(labs: &[u32]) -> String {
    labs.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
