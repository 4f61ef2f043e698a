//! The spec of a console: the program that runs a machine (an emulator, or a firmware built for this
//! system) on a terminal, logs what it prints, and lets others use the terminal.

use super::Spec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Abstract name of the socket of a node's console, in the node's network namespace.
pub const CONSOLE_SOCKET: &[u8] = b"thingbed-console";

/// On standard error of a console when all steps are done.
pub const CONSOLE_DONE: &str = "console: all steps are done";
/// The begin of lines about the steps.
pub const CONSOLE_PREFIX: &str = "console: ";

/// A client's first byte: it gets what the machine printed before, and all that it prints from then on.
pub const CONSOLE_ATTACH: u8 = b'a';

/// A client's first byte: it gets what the machine prints from then on.
pub const CONSOLE_FOLLOW: u8 = b'f';

/// Spec of the console of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsoleSpec {
    /// The machine's program and its arguments.
    pub argv: Vec<String>,
    /// Whether the program may not change addresses, routes and interfaces of its node: Thingbed has made
    /// the tunnel that it opens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub network_is_fixed: bool,
    /// What to do on the terminal, in order.
    pub steps: Vec<ConsoleStep>,
}

/// A step on a console.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConsoleStep {
    /// Text that the machine must print first, after that of the step before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<String>,
    /// Time to let pass then, before anything is entered, in ns.
    #[serde(default)]
    pub pause_ns: u64,
    /// Line to enter, with Enter at its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send: Option<String>,
    /// Keys to press: the text as it is, such as `"\x02"` for Ctrl-B.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    /// Time after which the keys are pressed again, until the text of the next step comes, in ns;
    /// 0: they are pressed once.
    #[serde(default)]
    pub every_ns: u64,
}

impl Spec for ConsoleSpec {
    const PROGRAM: &'static str = "console";

    fn check(&self) -> Result<(), String> {
        if self.argv.is_empty() {
            return Err("argv must have a program".into());
        }
        if let Some(empty) = self.steps.iter().position(|step| *step == ConsoleStep::default()) {
            return Err(format!("steps[{empty}] must have wait, pause_ns, send or keys"));
        }
        let next = |step: usize| self.steps.get(step + 1).and_then(|next| next.wait.as_ref());
        // Without a text to wait for, the keys would be pressed until the end of the run.
        let endless = |(number, step): &(usize, &ConsoleStep)| {
            step.every_ns > 0 && (step.keys.is_none() || next(*number).is_none())
        };
        match self.steps.iter().enumerate().find(endless) {
            Some((step, _)) => Err(format!(
                "steps[{step}] has every_ns: it must have keys, and the next step wait"
            )),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::error_with;
    use super::*;
    use serde_json::json;

    #[test]
    fn says_what_is_wrong() {
        let spec = json!({"argv": ["sh"], "steps": [{"wait": "$ "}]});
        assert!(ConsoleSpec::parse(&spec.to_string()).is_ok());
        let error = error_with::<ConsoleSpec>(spec.clone(), "argv", json!([]));
        assert!(error.contains("argv"), "{error}");
        let error = error_with::<ConsoleSpec>(spec.clone(), "steps", json!([{"keys": "x"}, {}]));
        assert!(error.contains("steps[1]"), "{error}");
        let pressed = json!({"keys": "x", "every_ns": 5});
        for endless in [json!([pressed]), json!([pressed, {"send": "y"}]), json!([{"every_ns": 5}])]
        {
            let error = error_with::<ConsoleSpec>(spec.clone(), "steps", endless);
            assert!(error.contains("steps[0] has every_ns"), "{error}");
        }
        let ends = json!({"argv": ["sh"], "steps": [pressed, {"wait": "> "}]});
        assert!(ConsoleSpec::parse(&ends.to_string()).is_ok());
    }
}
