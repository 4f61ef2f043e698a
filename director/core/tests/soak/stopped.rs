//! A member whose application has stopped acknowledges nothing more.

use crate::round::take;
use director::io::Preconnection;
use director::session::Security;
use director::{ModelId, Pattern};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::mpsc::channel;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::unbounded_channel;
use tokio::task::yield_now;
use tokio::time::sleep;

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// With a model that acknowledges at once.
fn begin() -> Preconnection {
    let security = Security::Key(b"a key that both of them have".to_vec());
    Preconnection::new(Pattern::PublishSubscribe, security).models(&[ModelId::CoapConfirmable])
}

#[test]
fn a_message_that_arrives_after_the_application_has_stopped_is_not_acknowledged() {
    // The driver may look at the socket or at the application first, so several tries.
    for _ in 0..8 {
        let free = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let (of_hub, of_member): (SocketAddr, SocketAddr) = (free(), free());
        let (hub_side, member_side) = (runtime(), runtime());
        let (mut listener, session) = {
            let _entered = member_side.enter();
            let listener = begin().listen(of_member, of_hub).unwrap();
            let _entered = hub_side.enter();
            (listener, begin().initiate(of_hub, &[of_member]).unwrap())
        };
        let (ready, joined) = channel();
        let (go, mut next) = unbounded_channel();
        let other = std::thread::spawn(move || {
            hub_side.block_on(async {
                ready.send(session.ready(Duration::from_secs(60)).await).unwrap();
                next.recv().await.unwrap();
                let sending = session.send_within(&[0], b"an alarm", Duration::from_secs(60));
                let after = async {
                    next.recv().await.unwrap();
                    // An acknowledgement would arrive in this time.
                    sleep(Duration::from_millis(300)).await;
                };
                tokio::select! {
                    collected = sending => Some(collected),
                    () = after => None,
                }
            })
        });
        let is_joined = loop {
            member_side.block_on(async { sleep(Duration::from_millis(5)).await });
            if let Ok(is_joined) = joined.try_recv() {
                break is_joined;
            }
        };
        assert!(is_joined);
        go.send(()).unwrap();
        let taken = member_side.block_on(async {
            // The message arrives; then the driver learns of it and of the end of its application
            // at the same time.
            std::thread::sleep(Duration::from_millis(200));
            yield_now().await;
            take(&mut listener).is_some()
        });
        drop(listener);
        member_side.block_on(async { sleep(Duration::from_millis(50)).await });
        let _ = go.send(());
        let ended = other.join().unwrap();
        assert!(taken || ended.is_none(), "{ended:?}");
    }
}
