//! Resolves interactions: model, source, sinks, schedule and fan-out.

use super::context::Context;
use crate::file::{Interaction, Model};
use crate::limits::ONE;
use crate::plan::{self, FanOut};
use crate::problem::Problem;
use crate::read::{Named, Sink};
use crate::resolve::checks::positive;
use crate::resolve::payload;
use crate::source::Place;
use record::{DirectorModel, InteractionPattern};
use units::{Rate, Span};

/// Maximum rows of messages, so that they fit in memory next to the programs: about 2 GB.
pub(super) const MAX_ROWS: u64 = 20_000_000;
/// Range of multicast rates in libzmq and libpgm, bit/s.
const MULTICAST_RATES: std::ops::RangeInclusive<u64> = 8_000..=10_000_000_000;

/// Maximum payload of a UDP datagram over IPv4, B.
/// The length field of IP has 16 bits (RFC 791, 3.1): 65,535 B without 20 B of IP's and 8 B of
/// UDP's header.
const MAX_UDP: u64 = 65_507;

/// Other stacks' models of an interaction model: those that it lists, or the one that it is fixed
/// to.
fn outside(model: &Model) -> Vec<DirectorModel> {
    let listed = model.outside.iter().flat_map(|list| list.value.0.iter().map(|at| at.value.0));
    let fixed = model.down.as_ref().and_then(|down| down.value.outside());
    listed.chain(fixed).collect()
}

/// Checks that the parts of a model fit together.
pub(super) fn check(model: &Model, sink: &mut Sink) {
    if let (Some(list), Some(down)) = (&model.outside, &model.down)
        && down.value != InteractionPattern::Director(None)
    {
        let text = format!("`{}` does not support `outside`; only `director` does", down.value);
        sink.add(Problem::new(text).at(list.place).label("remove it"));
    }
    let mqtt = outside(model).contains(&DirectorModel::Mqtt);
    match (&model.broker, &model.down) {
        (None, Some(down)) if mqtt => {
            let label = "add `broker`, a node whose `run` is the broker, at port 1883";
            sink.add(Problem::new("MQTT without a `broker`").at(down.place).label(label));
        }
        (Some(broker), _) if !mqtt => {
            let problem = Problem::new("a `broker` without MQTT").at(broker.place);
            sink.add(problem.label("remove it, or add `outside: mqtt`"));
        }
        _ => {}
    }
    if let Some(down) = model.down.as_ref().filter(|down| !down.value.supports_down()) {
        let problem = Problem::new(format!("`{}` works only for `up`", down.value)).at(down.place);
        sink.add(problem.label("for `down`, use a model that reaches the sinks"));
    }
    let Some(up) = &model.up else { return };
    if !up.value.supports_up() {
        let problem = Problem::new(format!("`{}` works only for `down`", up.value)).at(up.place);
        sink.add(problem.label("for `up`, use `tcp/request-reply` or `udp/request-response`"));
    } else if let Some(down) = &model.down
        && up.value != down.value
        && (up.value.is_bidirectional() || down.value.is_director())
    {
        let (both, other) = match up.value.is_bidirectional() {
            true => (format!("`{}` up", up.value), down.value),
            false => (format!("`{}` down", down.value), up.value),
        };
        let text = format!("{both} needs the same model in both directions, not `{other}`");
        let label = match down.value.is_director() {
            true => format!("use `{}`", down.value),
            false => "use `tcp/request-reply`".to_owned(),
        };
        sink.add(Problem::new(text).at(up.place).label(label));
    }
}

/// Resolves the changes of the fan-out.
fn fan_out(
    typed: &Interaction,
    down: InteractionPattern,
    sinks: u64,
    sink: &mut Sink,
) -> Option<Vec<FanOut>> {
    let Some(given) = &typed.fan_out else { return Some(Vec::new()) };
    if !down.is_director() {
        let text = format!("`{down}` does not support `fan_out`, because it cannot select sinks");
        let label = "use `director`, or remove it";
        sink.add(Problem::new(text).at(given.place).label(label));
        return None;
    }
    let mut changes: Vec<FanOut> = Vec::new();
    for change in &given.value {
        let (at, to) = (change.at.as_ref()?, change.to.as_ref()?);
        if !(ONE..=sinks).contains(&to.value) {
            let text = format!("a fan-out of {} with {sinks} sinks", to.value);
            sink.add(Problem::new(text).at(to.place).label(format!("use 1 to {sinks}")));
            return None;
        }
        if changes.last().is_some_and(|before| before.at >= at.value) {
            let text = "the changes of the fan-out are not in order of time";
            sink.add(Problem::new(text).at(at.place).label("use a time later than the one before"));
            return None;
        }
        changes.push(FanOut { at: at.value, to: to.value });
    }
    Some(changes)
}

/// Checks that the results hold all messages.
fn check_rows(interaction: &plan::Interaction, place: Place, sink: &mut Sink) -> Option<()> {
    let rows = interaction.replies();
    if rows <= MAX_ROWS {
        return Some(());
    }
    let text = format!("{rows} messages, with one row in the results each");
    let label = format!("use at most {MAX_ROWS}: a lower rate, a shorter time, or fewer sinks");
    sink.add(Problem::new(text).at(place).label(label));
    None
}

/// Reports keys of a model that its pattern ignores.
fn check_unused(model: &Model, down: InteractionPattern, sink: &mut Sink) {
    let is_director = down.is_director();
    let is_rated = is_director || down == InteractionPattern::PgmPublishSubscribe;
    let rate = model.multicast_rate.as_ref().filter(|_| !is_rated).map(|at| at.place);
    let loss = model.assume_loss.as_ref().filter(|_| !is_director).map(|at| at.place);
    let round_trip = model.assume_round_trip.as_ref().filter(|_| !is_director).map(|at| at.place);
    let nothing = model.assume_nothing.as_ref().filter(|_| !is_director).map(|at| at.place);
    let lifetime = model.lifetime.as_ref().filter(|_| !is_director).map(|at| at.place);
    let keys = [
        ("multicast_rate", rate, "PGM and the director"),
        ("assume_loss", loss, "the director"),
        ("assume_round_trip", round_trip, "the director"),
        ("assume_nothing", nothing, "the director"),
        ("lifetime", lifetime, "the director"),
    ];
    for (key, place, users) in keys {
        let Some(place) = place else { continue };
        let problem = Problem::new(format!("`{key}` has no effect on `{down}`")).at(place);
        sink.add(problem.label(format!("only {users} can use it: remove it")));
    }
    if is_director && model.assume_nothing.as_ref().is_some_and(|at| at.value) {
        let rate = model.multicast_rate.as_ref().map(|at| at.place);
        // PGM always needs a rate.
        let is_rate_used = outside(model).contains(&DirectorModel::PgmPublishSubscribe)
            || down == InteractionPattern::Director(Some(DirectorModel::PgmPublishSubscribe));
        let assumed = [
            ("multicast_rate", rate.filter(|_| !is_rate_used)),
            ("assume_loss", model.assume_loss.as_ref().map(|at| at.place)),
            ("assume_round_trip", model.assume_round_trip.as_ref().map(|at| at.place)),
        ];
        for (key, place) in assumed {
            let Some(place) = place else { continue };
            let problem = Problem::new(format!("`{key}` contradicts `assume_nothing: true`"));
            sink.add(problem.at(place).label("remove one of both"));
        }
    }
}

impl Context<'_, '_> {
    /// Resolves an interaction, and the duration of its messages.
    pub(super) fn interaction(
        &self,
        name: String,
        typed: &Interaction,
        sink: &mut Sink,
    ) -> Option<(plan::Interaction, Span)> {
        let empty = Named::default();
        let models = self.file.models.as_ref().unwrap_or(&empty);
        let model = typed.model.as_ref().and_then(|model| models.find(model, "model", sink));
        let ends = self.ends(typed, sink);
        let payload = typed.payload.as_ref().and_then(|path| payload::find(path, self.base, sink));
        let reply = match &typed.reply_payload {
            Some(path) => payload::find(path, self.base, sink),
            None => payload.clone(),
        };
        let schedule = model.and_then(|model| self.schedule(typed, model, sink));
        let (source, sinks, network) = ends?;
        let ((payload, payload_bytes), (reply_payload, reply_bytes)) = (payload?, reply?);
        let (model, (every, messages, lasts)) = (model?, schedule?);
        let (down, up) = (model.down.as_ref()?.value, model.up.as_ref()?.value);
        let udp = InteractionPattern::UdpRequestResponse;
        for (way, bytes, at) in [
            (down, payload_bytes, &typed.payload),
            (
                up,
                reply_bytes,
                typed.reply_payload.as_ref().map_or(&typed.payload, |_| &typed.reply_payload),
            ),
        ] {
            if let Some(at) = at.as_ref().filter(|_| way == udp && bytes > MAX_UDP) {
                let text = format!("a payload of {bytes} B does not fit in a UDP datagram");
                sink.add(Problem::new(text).at(at.place).label(format!("use at most {MAX_UDP} B")));
            }
        }
        check_unused(model, down, sink);
        let multicast_rate = self.multicast_rate(typed, model, &network, sink)?;
        let outside = outside(model);
        if down.is_director() || down == InteractionPattern::PgmPublishSubscribe {
            let place = typed.model.as_ref().map_or(typed.place, |at| at.place);
            let what = format!("`{down}`");
            let ends = sinks.iter().chain([&source]);
            self.check_multicast(&what, &network, ends, place, sink).then_some(())?;
        }
        let broker = self.broker(model, (&source, &sinks, &network), &outside, sink)?;
        let fan_out = fan_out(typed, down, sinks.len() as u64, sink)?;
        let interaction = plan::Interaction {
            name,
            source,
            sinks,
            model: typed.model.as_ref()?.value.clone(),
            down,
            up,
            payload,
            reply_payload,
            payload_bytes,
            reply_payload_bytes: reply_bytes,
            every,
            messages,
            multicast_rate,
            assume_loss: model.assume_loss.as_ref().map(|at| at.value),
            assume_round_trip: model.assume_round_trip.as_ref().map(|at| at.value),
            assume_nothing: model.assume_nothing.as_ref().is_some_and(|at| at.value),
            lifetime: positive(&model.lifetime, "lifetime", sink),
            outside,
            broker,
            fan_out,
            network,
        };
        check_rows(&interaction, typed.place, sink)?;
        Some((interaction, lasts))
    }

    /// Resolves the broker of a model, which MQTT requires.
    fn broker(
        &self,
        model: &Model,
        (source, sinks, network): (&String, &[String], &str),
        outside: &[DirectorModel],
        sink: &mut Sink,
    ) -> Option<Option<String>> {
        let Some(name) = &model.broker else {
            return (!outside.contains(&DirectorModel::Mqtt)).then_some(None);
        };
        let (group, nodes) = self.nodes.find(name, sink)?;
        let wrong = match &nodes[..] {
            [node] if node == source || sinks.contains(node) => (
                format!("the broker's node `{node}` is also one of its clients"),
                "use another node".into(),
            ),
            [node] if self.networks.shared_by(&[group]).contains(&network) => {
                return Some(Some(node.clone()));
            }
            [node] => (format!("`{node}` is not attached to `{network}`"), "attach it".to_owned()),
            _ => {
                let text =
                    format!("`{}` has {} nodes, but a broker is one node", name.value, nodes.len());
                (text, format!("write for example `{}`", nodes[0]))
            }
        };
        sink.add(Problem::new(wrong.0).at(name.place).label(wrong.1));
        None
    }

    /// Multicast send rate: the model's, or the network's.
    fn multicast_rate(
        &self,
        typed: &Interaction,
        model: &Model,
        network: &str,
        sink: &mut Sink,
    ) -> Option<Rate> {
        let given = model.multicast_rate.as_ref();
        let rate = given.map(|rate| rate.value).or(self.networks.rate(network))?;
        let multicast = InteractionPattern::PgmPublishSubscribe;
        let used = model.down.as_ref().is_some_and(|down| down.value == multicast)
            || outside(model).contains(&DirectorModel::PgmPublishSubscribe);
        if used && !MULTICAST_RATES.contains(&rate.bit_s()) {
            let text = format!("a multicast rate of {rate}");
            let place = given.map_or(typed.place, |rate| rate.place);
            let label = "PGM supports 8 kbit/s to 10 Gbit/s; the model's `multicast_rate` sets it";
            sink.add(Problem::new(text).at(place).label(label));
            return None;
        }
        Some(rate)
    }

    /// Maximum wait after the duration, of the interaction or its model.
    pub(super) fn drain(&self, model: &str, typed: &Interaction) -> Option<Span> {
        let model = || self.file.models.as_ref()?.get(model)?.drain.as_ref();
        typed.drain.as_ref().or_else(model).map(|drain| drain.value)
    }

    /// Source, sinks, and the network between them.
    fn ends(&self, typed: &Interaction, sink: &mut Sink) -> Option<(String, Vec<String>, String)> {
        let source = typed.source.as_ref().and_then(|name| {
            let (group, nodes) = self.nodes.find(name, sink)?;
            if let [node] = &nodes[..] {
                return Some((group.to_owned(), node.clone()));
            }
            let text = format!(
                "`{}` has {} nodes, but an interaction has one source",
                name.value,
                nodes.len()
            );
            sink.add(
                Problem::new(text)
                    .at(name.place)
                    .label(format!("write for example `{}`", nodes[0])),
            );
            None
        });
        let sinks = typed.sinks.as_ref().map(|sinks| {
            self.nonempty(sinks, "`sinks` matches no nodes", sink);
            self.nodes.find_all(&sinks.value, sink)
        });
        let ((source_group, source), (sinks, sink_groups)) = (source?, sinks?);
        if let Some(at) = typed.sinks.as_ref().filter(|_| sinks.contains(&source)) {
            let text = format!("the source `{source}` is also a sink");
            sink.add(Problem::new(text).at(at.place));
            return None;
        }
        let mut groups: Vec<&str> = sink_groups.iter().map(String::as_str).collect();
        groups.push(&source_group);
        let nodes: Vec<&String> = sinks.iter().chain([&source]).collect();
        let network = self.network(&typed.network, typed.place, &groups, &nodes, sink)?;
        Some((source, sinks, network))
    }

    /// Time between messages, number of messages, and total duration.
    fn schedule(
        &self,
        typed: &Interaction,
        model: &Model,
        sink: &mut Sink,
    ) -> Option<(Span, u64, Span)> {
        let given = if typed.every.is_some() { &typed.every } else { &model.every };
        // Otherwise it may only be missing because its value was reported as invalid.
        if given.is_none() && sink.is_clean() {
            let problem = Problem::new("the message rate is not defined");
            let label = "add `every: 0.15 s` here or to the model";
            sink.add(problem.at(typed.place).label(label));
        }
        let every = positive(given, "every", sink);
        let count = typed.count.as_ref().or(model.count.as_ref());
        let own = if typed.duration.is_some() { &typed.duration } else { &model.duration };
        let own = if own.is_some() { Some(positive(own, "duration", sink)?) } else { None };
        if let Some(count) = count {
            if count.value < ONE {
                let problem = Problem::new("`count` is 0, so no message is sent");
                sink.add(problem.at(count.place).label("use 1 or more"));
                return None;
            }
            let every = every?;
            let lasts = every * count.value;
            return Some((every, count.value, lasts));
        }
        let Some(lasts) = own.or(self.duration) else {
            if sink.is_clean() {
                let problem = Problem::new("the number of messages is not defined");
                let label = "add `duration: 90 s` to the experiment, or `count` here";
                sink.add(problem.at(typed.place).label(label));
            }
            return None;
        };
        let every = every?;
        // The first message is at 0, so an interval that has begun has one as well.
        Some((every, lasts.as_ns().div_ceil(every.as_ns()), lasts))
    }
}
