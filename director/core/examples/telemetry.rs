//! Five members send readings of a topic when they have some, and get messages of topics that they
//! have subscribed to. All are in one program here; on devices, each part is a separate program.
use director::io::{Preconnection, resolve};
use director::session::Security;
use director::{MessageProperties, Pattern};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let port = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(5_700_u16);
    let session = || {
        Preconnection::new(Pattern::PublishCollect, Security::Key(b"a secret of all ends".to_vec()))
    };
    let at = |n: u16| resolve(&format!("127.0.0.1:{}", port + n));
    for n in 1..=5 {
        let mut updates = session().listen(at(n)?, at(0)?)?;
        let readings = updates.publisher();
        tokio::spawn(async move {
            let _ = readings.subscribe("updates/#").await;
            let (topic, reading) = (format!("readings/{n}"), format!("meter {n}: 17 kWh"));
            let usual = MessageProperties::default();
            let ended = readings.publish_to(&topic, reading.as_bytes(), usual).await;
            println!("meter {n}: {ended:?}");
        });
        tokio::spawn(async move {
            while let Some(update) = updates.next().await {
                println!("meter {n}: {:?}", update.topic);
            }
        });
    }
    let hub = session().initiate(at(0)?, &(1..=5).map(at).collect::<Result<Vec<_>, _>>()?)?;
    let mut readings = hub.inbox().ok_or("taken")?;
    for _ in 0..5 {
        let reading = tokio::time::timeout(Duration::from_secs(60), readings.next()).await?;
        println!("{}", String::from_utf8_lossy(&reading.ok_or("over")?.message));
    }
    println!("{} updated", hub.publish("updates/price", b"0.21").await?.answers.len());
    Ok(())
}
