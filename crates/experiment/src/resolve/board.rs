//! Resolves boards, and CPU limits in terms of boards.

use crate::board::Board;
use crate::file::{Board as Typed, Cpu, Group, Limits};
use crate::limits::SCALE_ABOVE;
use crate::nearest::advice;
use crate::plan::PlannedCpu;
use crate::problem::Problem;
use crate::read::Sink;
use crate::source::Place;

/// Board of a group's nodes.
pub(super) fn of(group: &Group, sink: &mut Sink) -> Option<Board> {
    let at = group.board.as_ref()?;
    match &at.value {
        Typed::Named(name) => find(name, at.place, sink),
        Typed::Own(own) => {
            let board = Board::of("", own)?;
            let numbers = [("scale", Some(board.scale)), ("coremark", board.coremark)];
            for (key, value) in numbers {
                if value.is_some_and(|value| value <= SCALE_ABOVE) {
                    let problem = Problem::new(format!("`{key}` is not above 0")).at(at.place);
                    sink.add(problem);
                    return None;
                }
            }
            Some(board)
        }
    }
}

/// CPU limit of a group's nodes.
pub(super) fn cpu(group: &Group, sink: &mut Sink) -> Option<PlannedCpu> {
    cpu_of(group.limits.as_ref()?, sink)
}

/// CPU limit in `limits`.
pub(crate) fn cpu_of(limits: &Limits, sink: &mut Sink) -> Option<PlannedCpu> {
    let at = limits.cpu.as_ref()?;
    if let Some(cpus) = &limits.cpus {
        let problem = Problem::new("`cpu` and `cpus` set the same limit").at(cpus.place);
        sink.add(problem.label("remove one of them"));
    }
    match &at.value {
        Cpu::Clock(clock) if clock.hertz() > 0.0 => Some(PlannedCpu::Clock(*clock)),
        Cpu::Of(share, name) if share.fraction() > 0.0 => {
            let board = find(name, at.place, sink)?;
            let Some(score) = board.coremark else {
                let problem = Problem::new(format!("no benchmark of `{name}` is known"));
                sink.add(problem.at(at.place).label("use a clock frequency such as `200 MHz`"));
                return None;
            };
            Some(PlannedCpu::Coremark(score * share.fraction()))
        }
        Cpu::Clock(_) | Cpu::Of(..) => {
            sink.add(Problem::new("a limit of 0").at(at.place).label("use more than 0"));
            None
        }
    }
}

fn find(name: &str, place: Place, sink: &mut Sink) -> Option<Board> {
    let found = Board::named(name);
    if found.is_none() {
        let known: Vec<String> = Board::known().map(str::to_owned).collect();
        let problem = Problem::new(format!("unknown board `{name}`")).at(place);
        sink.add(problem.label(advice(name, &known)));
    }
    found
}
