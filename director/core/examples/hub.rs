//! Sends a price to all meters and prints how many have answered:
//! `director-hub KEY PRICE LOCAL METER...`; the first two are files, the others `NAME:PORT`.

use director::io::{Preconnection, resolve};
use director::session::Security;
use director::{Conditions, Pattern, QosTargets, Span};
use std::time::{Duration, Instant};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [key, price, local, meters @ ..] = &arguments[..] else {
        return Err("usage: director-hub KEY PRICE LOCAL METER...".into());
    };
    let (key, price) = (std::fs::read(key)?, std::fs::read(price)?);
    let meters = meters.iter().map(|meter| resolve(meter)).collect::<Result<Vec<_>, _>>()?;
    // Assumed conditions before the first estimate: the constrained network of the papers.
    let network = Conditions {
        loss: 0.3,
        rtt: Span::from_ms(60),
        rate_bit_s: 250e3,
        payload: price.len() as f64,
        ..Conditions::default()
    };
    let session = Preconnection::new(Pattern::PublishCollect, Security::Key(key))
        .targets(QosTargets { deadline: Some(Span::from_s(120)), ..QosTargets::default() })
        .assume(network)
        .initiate(resolve(local)?, &meters)?;
    println!("all members ready: {}", session.ready(Duration::from_secs(60)).await);
    let began = Instant::now();
    let collected = session.collect(&price).await?;
    let (had, all) = (collected.answers.len(), meters.len());
    println!("{had} of {all} answers in {:.2} s", began.elapsed().as_secs_f64());
    println!("{}", session.explain().await.ok_or("the session is over")?);
    Ok(())
}
