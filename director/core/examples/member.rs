//! A meter that answers each price: `director-member KEY LOCAL HUB`; the first is a file, the
//! others are `NAME:PORT`.

use director::Pattern;
use director::io::{Preconnection, resolve};
use director::session::Security;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [key, local, hub] = &arguments[..] else {
        return Err("usage: director-member KEY LOCAL HUB".into());
    };
    let security = Security::Key(std::fs::read(key)?);
    let meter = Preconnection::new(Pattern::PublishCollect, security);
    let mut prices = meter.listen(resolve(local)?, resolve(hub)?)?;
    while let Some(price) = prices.next().await {
        let reading: Vec<u8> = price.message.iter().map(|byte| byte.wrapping_add(1)).collect();
        price.reply(&reading);
    }
    Ok(())
}
