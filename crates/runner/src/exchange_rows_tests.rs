use super::Rows;
use crate::test_plan::plan;
use experiment::{Turn, Workload};
use measure::{Message, MessageTable};
use record::event::{ExchangeEvent, FailureReason, Receipt};
use std::path::Path;

const MS: u64 = 1_000_000;

impl Rows<'_> {
    fn all(&self) -> Vec<Message> {
        self.table.iter().skip(self.begin).map(Result::unwrap).collect()
    }
}

/// Two pairs, three exchanges of 50 B in all, behind a row of another workload; exchange times count from 0.
fn table(protocol: &str) -> Rows<'static> {
    planned(protocol, 3)
}

fn planned(protocol: &str, repetitions: u64) -> Rows<'static> {
    let sides = match protocol.contains("get") {
        true => "sources: server, sinks: meter-1",
        false => "sources: meter, sinks: server",
    };
    let plan = plan(&format!(
        "experiment: e
nodes: {{meter: {{count: 2}}, server: {{count: 1}}}}
networks: {{air: {{attach: [meter, server], subnet: 10.0.0.0/24}}}}
workloads:
  - exchange: {{name: x, {sides}, protocol: {protocol}, payload: 50 B,
      repetitions: {repetitions}, every: 100 ms}}
"
    ));
    // The rows borrow both, and no test needs many of them.
    let plan = Box::leak(Box::new(plan));
    let messages = Box::leak(Box::new(MessageTable::new(Path::new("/nowhere"))));
    messages.push(Message::default());
    let Workload::Exchange(exchange) = &plan.workloads[0] else { panic!("{:?}", plan.workloads) };
    Rows::planned(plan, 0, exchange, messages)
}

fn driven(table: &mut Rows<'_>, message: u64, begin_ms: u64, failure: Option<FailureReason>) {
    let (begin_ns, end_ns) = (begin_ms * MS, (begin_ms + 8) * MS);
    let event =
        ExchangeEvent { message, bytes: 50, begin_ns, end_ns, failure, ..Default::default() };
    table.driven(&event, &|at| at as i64).unwrap();
}

fn received(table: &mut Rows<'_>, server: &str, receipt: &Receipt, at_ms: i64) {
    table.received(server, receipt, at_ms * MS as i64).unwrap();
}

fn receipt(table: &Rows<'_>, message: u64) -> Receipt {
    let row = &table.all()[message as usize];
    Receipt { peer: row.sender.to_string(), bytes: 50, ..Receipt::default() }
}

#[test]
fn a_payload_without_a_number_is_that_of_the_exchange_under_way() {
    let mut table = table("udp");
    driven(&mut table, 0, 10, None);
    let unnumbered = receipt(&table, 0);
    received(&mut table, "server", &unnumbered, 13);
    assert_eq!(table.all()[0].received_ns, Some(13 * MS as i64));
    assert_eq!(table.all()[0].reply_received_ns, Some(18 * MS as i64));
    assert!(table.all()[1..].iter().all(|row| row.received_ns.is_none()));
    // The same payload again is a duplicate, and one before any exchange belongs to none.
    received(&mut table, "server", &unnumbered, 14);
    assert_eq!(table.all()[0].duplicates, 1);
    received(&mut table, "server", &unnumbered, 5);
    assert_eq!((table.all()[0].duplicates, table.all()[0].received_ns), (1, Some(13 * MS as i64)));
}

/// In any order of receipts: times are those of a clock, but servers are separate programs.
#[test]
fn payloads_without_a_number_find_their_exchange_among_many() {
    let mut table = planned("udp", 400);
    // The driver was stopped before its last exchanges.
    let own: Vec<u64> =
        (0..150).map(|nth| table.exchange.number(Turn { pair: 0, nth }).unwrap()).collect();
    for (message, nth) in own.iter().zip(1..) {
        driven(&mut table, *message, 10 * nth, None);
    }
    let unnumbered = receipt(&table, own[0]);
    for nth in (0..150).step_by(7).chain([149, 3, 0, 80, 4, 149, 2]) {
        let before = table.all();
        received(&mut table, "server", &unnumbered, 10 * (nth as i64 + 1) + 5);
        let changed: Vec<u64> = before
            .into_iter()
            .zip(table.all())
            .filter(|(old, new)| old != new)
            .map(|(_, new)| new.message)
            .collect();
        assert_eq!(changed, [own[nth]]);
    }
    let before = table.all();
    received(&mut table, "server", &unnumbered, 5);
    assert_eq!(table.all(), before, "before the first exchange");
}

#[test]
fn receipts_of_other_sizes_and_unknown_numbers_change_nothing() {
    let mut table = table("udp");
    driven(&mut table, 0, 10, None);
    let before = table.all();
    let numbered = |message, bytes| Receipt { message: Some(message), bytes, ..receipt(&table, 0) };
    for strange in [numbered(0, 49), numbered(77, 50), numbered(u64::MAX, 50)] {
        received(&mut table, "server", &strange, 13);
    }
    assert_eq!(table.all(), before);
}

/// The sender's success means nothing if the receiver refused what it sent.
#[test]
fn a_refusal_makes_the_exchange_fail_whatever_its_driver_reports() {
    let mut table = table("udp");
    driven(&mut table, 0, 10, None);
    let failure = Some(FailureReason::Rejected);
    let refused = Receipt { failure, detail: "no".to_owned(), ..receipt(&table, 0) };
    received(&mut table, "server", &refused, 13);
    let row = table.all().remove(0);
    assert_eq!(row.reply_received_ns, None);
    assert_eq!(row.failed.as_ref().map(|failed| failed.detail.as_str()), Some("no"));
}

#[test]
fn an_exchange_that_failed_has_no_end_and_one_that_never_began_no_times() {
    let mut table = table("udp");
    driven(&mut table, 1, 10, Some(FailureReason::Timeout));
    assert_eq!(
        (table.all()[1].sent_ns, table.all()[1].reply_received_ns),
        (Some(10 * MS as i64), None)
    );
    assert!(table.all()[1].failed.is_some());
    assert_eq!((table.all()[2].sent_ns, table.all()[2].failed.is_some()), (None, false));
    assert_eq!(table.all().len(), 3);
}

/// With GET the source of the payload is the server, and receipts do not count.
#[test]
fn pulled_payloads_come_from_the_server() {
    let mut table = table("{coap: {method: get}}");
    assert!(table.all().iter().all(|row| &*row.sender == "server"), "the source of payloads");
    let before = table.all();
    let receipt = receipt(&table, 0);
    received(&mut table, "server", &receipt, 13);
    assert_eq!(table.all(), before);
}

/// The receiver knows better than the sender, also about what it had received before.
#[test]
fn a_refusal_leaves_what_has_arrived_and_other_drivers_alone() {
    let mut table = table("udp");
    (0..3).for_each(|message| driven(&mut table, message, 10 + 100 * message, None));
    let arrived = receipt(&table, 0);
    received(&mut table, "server", &arrived, 13);
    let own: Vec<bool> = table.all().iter().map(|row| *row.sender == *arrived.peer).collect();
    let failure = Some(FailureReason::Rejected);
    let refused = |detail: &str| Receipt { failure, detail: detail.to_owned(), ..arrived.clone() };
    received(&mut table, "server", &refused("first"), 14);
    received(&mut table, "server", &refused("second"), 15);
    for (row, own) in table.all().iter().zip(own) {
        let fails = own && row.message != 0;
        assert_eq!(row.failed.is_some(), fails, "{row:?}");
        assert_eq!(row.reply_received_ns.is_none(), fails, "{row:?}");
        assert!(row.failed.as_ref().is_none_or(|failed| failed.detail == "first"), "{row:?}");
    }
    // Another server's refusal is about other exchanges.
    let before = table.all();
    received(&mut table, "meter-1", &refused("third"), 16);
    assert_eq!(table.all(), before);
}

proptest::proptest! {
    /// Any events and receipts, also of numbers that no exchange has.
    #[test]
    fn rows_keep_their_plan_whatever_the_programs_report(
        events in proptest::collection::vec((0..6_u64, 0..500_u64, 0..3_u8), 0..12),
        receipts in proptest::collection::vec(
            (proptest::option::of(0..6_u64), 0..3_usize, 49..51_u64, 0..500_i64, 0..6_u8), 0..12),
    ) {
        let mut table = table("udp");
        let planned = table.all();
        for (message, begin_ms, what) in events {
            let message = if what == 2 { u64::MAX } else { message };
            driven(&mut table, message, begin_ms, (what == 1).then_some(FailureReason::Timeout));
        }
        for (message, peer, bytes, at, what) in receipts {
            let peer = ["meter-1", "meter-2", "stranger"][peer].to_owned();
            let failure = (what == 0).then_some(FailureReason::Rejected);
            let receipt = Receipt { peer, message, bytes, failure, ..Receipt::default() };
            received(&mut table, "server", &receipt, at);
        }
        for (row, planned) in table.all().iter().zip(&planned) {
            let of = |row: &measure::Message| {
                (row.message, row.sender.clone(), row.peer.clone(), row.bytes, row.warmup)
            };
            assert_eq!(of(row), of(planned));
            assert!(row.duplicates == 0 || row.received_ns.is_some(), "{row:?}");
        }
        assert_eq!(table.all().len(), planned.len());
    }
}
