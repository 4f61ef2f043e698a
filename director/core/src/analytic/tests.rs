//! Predictions of all models, compared with each other.

use super::rounds;
use super::tcp::MIN_TIMEOUT;
use crate::Span;
use crate::conditions::Conditions;
use crate::map::Quantiles;
use crate::model::ModelId;
use crate::targets::Pattern;

/// The constrained network of the papers, with a price update of 1,699 B.
fn constrained(group: f64, loss: f64) -> Conditions {
    Conditions {
        loss,
        rtt: Span::from_ms(60),
        rate_bit_s: 250_000.0,
        mtu: 113.0,
        group,
        payload: 1_699.0,
        ..Conditions::default()
    }
}

#[test]
fn a_group_is_for_multicast_and_loss_is_not_for_bare_datagrams() {
    let of =
        |model: ModelId, here: &Conditions| model.predict(Pattern::PublishCollect, here).unwrap();
    let here = constrained(300.0, 0.3);
    let fec = of(ModelId::MulticastFec, &here);
    let arq = of(ModelId::UdpArq, &here);
    let udp = of(ModelId::UdpRequestResponse, &here);
    assert!(fec.delay_ms.p99 < 50_000.0 && fec.delay_ms.p99 < 0.6 * arq.delay_ms.p99);
    assert!(fec.bytes < 0.6 * arq.bytes, "{} {}", fec.bytes, arq.bytes);
    assert!(udp.delivery < 0.01 && fec.delivery == 1.0);
    // One peer without loss: nothing is faster than a datagram.
    let near = Conditions { payload: 60.0, mtu: 1_500.0, ..constrained(1.0, 0.0) };
    assert!(
        of(ModelId::UdpRequestResponse, &near).delay_ms.p50
            <= of(ModelId::UdpArq, &near).delay_ms.p50
    );
}

#[test]
fn quic_is_for_large_packets_and_is_never_the_least() {
    let of = |model: ModelId, here: &Conditions| model.predict(Pattern::PublishCollect, here);
    let quic = [ModelId::QuicStreams, ModelId::QuicDatagrams];
    for mtu in [127.0, 500.0, 1_229.0] {
        let small = Conditions { mtu, payload: 60.0, ..constrained(1.0, 0.1) };
        assert!(quic.iter().all(|model| of(*model, &small).is_none()), "{mtu}");
    }
    for loss in [0.0, 0.1, 0.3] {
        let here = Conditions { mtu: 1_500.0, payload: 600.0, ..constrained(4.0, loss) };
        let [streams, datagrams] = quic.map(|model| of(model, &here).unwrap());
        let arq = of(ModelId::UdpArq, &here).unwrap();
        let udp = of(ModelId::UdpRequestResponse, &here).unwrap();
        assert!(streams.bytes > arq.bytes && datagrams.bytes > udp.bytes);
        assert!(streams.delay_ms.p99 >= arq.delay_ms.p99);
        assert!(datagrams.delay_ms.p99 < 2.0 * udp.delay_ms.p99);
        assert!(streams.delivery == 1.0 && (loss == 0.0 || datagrams.delivery < 1.0));
        // A long message waits for the window.
        let long = Conditions { payload: 60_000.0, rate_bit_s: 100e6, ..here };
        let long = of(ModelId::QuicStreams, &long).unwrap();
        assert!(long.delay_ms.p50 > 3.0 * 60.0, "{long:?}");
    }
    let long = Conditions { mtu: 1_500.0, ..constrained(1.0, 0.0) };
    assert!(of(ModelId::QuicDatagrams, &long).is_none(), "it does not fit");
}

#[test]
fn other_stacks_cost_what_their_ways_do() {
    let of =
        |model: ModelId, here: &Conditions| model.predict(Pattern::PublishCollect, here).unwrap();
    let quiet = Conditions { mtu: 1_500.0, payload: 600.0, ..constrained(8.0, 0.0) };
    let lossy = Conditions { loss: 0.1, ..quiet };
    let tcp = |here| of(ModelId::TcpRouterDealer, here);
    let arq = of(ModelId::UdpArq, &quiet);
    assert!(tcp(&quiet).bytes > arq.bytes);
    // A loss costs a timeout, and a broker a second hop.
    assert!(tcp(&lossy).delay_ms.p99 > tcp(&quiet).delay_ms.p99 + MIN_TIMEOUT);
    assert!(of(ModelId::Mqtt, &quiet).bytes > 1.5 * tcp(&quiet).bytes);
    assert!(of(ModelId::Mqtt, &quiet).delay_ms.p50 > tcp(&quiet).delay_ms.p50);
    let pgm = of(ModelId::PgmPublishSubscribe, &quiet);
    assert!(pgm.bytes < 0.8 * of(ModelId::TcpPublishSubscribe, &quiet).bytes, "{pgm:?}");
    let coded = of(ModelId::MulticastFec, &lossy);
    assert!(of(ModelId::PgmPublishSubscribe, &lossy).delay_ms.p99 > coded.delay_ms.p99);
}

#[test]
fn figures_are_numbers_everywhere() {
    for loss in [0.0, 0.01, 0.5, 1.0] {
        for (group, mtu) in [(1.0, 113.0), (300.0, 113.0), (1.0, 1_500.0), (300.0, 1_500.0)] {
            let here = Conditions { mtu, ..constrained(group, loss) };
            for pattern in [Pattern::PublishSubscribe, Pattern::PublishCollect] {
                for model in ModelId::ALL {
                    let Some(figures) = model.predict(pattern, &here) else { continue };
                    let Quantiles { p50, p90, p99 } = figures.delay_ms;
                    assert!(p50 <= p90 && p90 <= p99 && p99.is_finite(), "{model} {figures:?}");
                    assert!((0.0..=1.0).contains(&figures.delivery));
                    assert!(figures.bytes.is_finite() && figures.bytes > 0.0);
                }
            }
        }
    }
}

#[test]
fn rounds_are_those_of_independent_losses() {
    assert_eq!(rounds(21.0, 0.0, 0.5), 1.0);
    // One chunk at 50 % loss: half of them after the first round.
    assert!((rounds(1.0, 0.5, 0.5) - 1.0).abs() < 0.6);
    assert!(rounds(21.0, 0.3, 0.99) > rounds(21.0, 0.3, 0.5));
}
