//! The curve of what load and device manage on two cores: for each rate what was submitted,
//! answered and lost, and the slip. `cargo run --release -p load --example curve [SECONDS]`

use load::{DeviceSettings, Mischief, Origin, Settings, run, serve};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use trace::{Group, Method, Mix, Recipe};

const RATES: [u64; 6] = [10_000, 50_000, 100_000, 150_000, 200_000, 250_000];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(2), |text| text.parse())?;
    let device = DeviceSettings {
        coap: Some(([127, 0, 0, 1], 0).into()),
        http: None,
        udp: None,
        tcp: None,
        resources: vec!["*, r, sleep, constant:0ns".parse()?],
        threads: 1,
        queue: 1,
        payload: 4,
        mischief: Mischief::default(),
        core: Some(0),
        spin: true,
        seed: 1,
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (tell, told) = sync_channel(1);
        let stop = &stop;
        let device = &device;
        scope.spawn(move || serve(device, stop, |at| tell.send(at[0].1).unwrap_or_default()));
        let curve = told.recv().map_err(Into::into).and_then(|at| curve(&at.to_string(), seconds));
        stop.store(true, Relaxed);
        curve
    })
}

fn curve(at: &str, seconds: u64) -> Result<(), Box<dyn std::error::Error>> {
    println!("rate       sent/s  answered    lost  unsent  slip p50  p99 us  least gap us");
    for rate in RATES {
        let group = Group {
            devices: 0..1,
            targets: vec![format!("coap://{at}")],
            arrivals: format!("exponential:{}ns", 1_000_000_000 / rate).parse()?,
            together: false,
            methods: Mix::of(Method::Get),
            paths: Mix::of("r".to_owned()),
            service: None,
            sizes: None,
        };
        let span = Some(seconds * 1_000_000_000);
        let recipe = Recipe { seed: 1, groups: vec![group], span, requests: None };
        let settings = Settings { cores: vec![1], spin: true, ..Settings::default() };
        let origin = Origin::Made(recipe.requests()?);
        let (figures, _) = run(origin, &settings, &AtomicBool::new(false), |_| ())?;
        let all = figures.all();
        println!(
            "{rate:>7} {:>9.0} {:>9} {:>7} {:>7} {:>9.2} {:>7.1} {:>8.2}",
            all.counts.sent as f64 * 1e9 / figures.span.max(1) as f64,
            all.counts.answered,
            all.counts.timed_out,
            all.counts.unsent,
            all.slip.quantile_ns(0.5) as f64 / 1e3,
            all.slip.quantile_ns(0.99) as f64 / 1e3,
            figures.submission.submitted.quantile_ns(0.0) as f64 / 1e3,
        );
    }
    Ok(())
}
