//! Fan-out of an interaction: the number of sinks that receive messages, over time.

use crate::plan::Interaction;

impl Interaction {
    /// Changes of the fan-out: first message, and number of sinks, in order. Before the first
    /// change, messages go to all sinks.
    pub fn fan_outs(&self) -> impl Iterator<Item = (u64, u64)> {
        // A change applies from the first message that is sent at or after its time.
        let every = self.every.as_ns().max(1);
        self.fan_out.iter().map(move |change| (change.at.as_ns().div_ceil(every), change.to))
    }

    /// Number of sinks of a message.
    pub fn sinks_of(&self, message: u64) -> u64 {
        if !self.down.is_to_all() {
            return 1;
        }
        let known = self.fan_outs().take_while(|(from, _)| *from <= message).last();
        known.map_or(self.sinks.len() as u64, |(_, to)| to)
    }

    /// Number of answers without loss.
    pub fn replies(&self) -> u64 {
        let all = if self.down.is_to_all() { self.sinks.len() as u64 } else { 1 };
        let ends = self.fan_outs().map(|(from, _)| from).skip(1).chain([self.messages]);
        let first = self.fan_outs().next().map_or(self.messages, |(from, _)| from);
        let changed = self.fan_outs().zip(ends).map(|((from, to), end)| {
            end.min(self.messages).saturating_sub(from).saturating_mul(to)
        });
        changed.fold(first.min(self.messages).saturating_mul(all), u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use crate::Experiment;
    use crate::plan::{Interaction, Workload};
    use std::path::Path;

    fn interaction(fan_out: &str) -> Interaction {
        let text = format!(
            "experiment: e\nnodes: {{hub: {{}}, sink: {{count: 5}}}}\n\
             networks: {{n: {{attach: [hub, sink], subnet: 10.0.0.0/24}}}}\n\
             models: {{m: {{down: director, up: director, every: 2 s, count: 10}}}}\n\
             workloads:\n- interaction: {{source: hub, sinks: sink, model: m, payload: Cargo.toml, \
             fan_out: {fan_out}}}\n"
        );
        let base = Path::new(env!("CARGO_MANIFEST_DIR"));
        let experiment = Experiment::parse(&text, "e.yaml", base).unwrap();
        let cells = experiment.cells(&crate::Only::all()).unwrap();
        let plan = experiment.plan(&cells[0], 0, 1).unwrap();
        match &plan.workloads[0] {
            Workload::Interaction(it) => it.clone(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_message_goes_to_as_many_as_were_last_said() {
        let it = interaction("[{at: 4 s, to: 1}, {at: 9 s, to: 3}]");
        let sinks: Vec<u64> = (0..10).map(|message| it.sinks_of(message)).collect();
        assert_eq!(sinks, [5, 5, 1, 1, 1, 3, 3, 3, 3, 3]);
        assert_eq!(it.replies(), sinks.iter().sum::<u64>());
        let all = interaction("[]");
        assert_eq!((all.sinks_of(3), all.replies()), (5, 50));
        let late = interaction("[{at: 0 s, to: 2}, {at: 60 s, to: 5}]");
        assert_eq!((late.sinks_of(9), late.replies()), (2, 20));
    }
}
