//! Networks with segmentation offload: TCP segments are not split, but counted as on a wire.

mod common;

use common::{Bed, figure, has, json};
use std::fs;

const BYTES: usize = 20_000_000;

/// Sends or receives recognisable bytes, then prints their number and digest, and the counters of
/// the node's kernel.
const PROGRAM: &str = r#"
import hashlib, socket, sys, time
digest, count = hashlib.sha256(), 0
if sys.argv[1] == 'take':
    stream = socket.create_server(('', 5000)).accept()[0]
    while part := stream.recv(1 << 20):
        digest.update(part)
        count += len(part)
else:
    for _ in range(100):
        try:
            stream = socket.create_connection(('server', 5000))
            break
        except OSError:
            time.sleep(0.05)
    while count < int(sys.argv[2]):
        part = hashlib.sha256(str(count).encode()).digest() * 2000
        digest.update(part)
        count += len(part)
        stream.sendall(part)
    stream.shutdown(socket.SHUT_WR)
    stream.recv(1)
stream.close()
time.sleep(1)
names, values = [line.split()[1:] for line in open('/proc/net/snmp') if line.startswith('Tcp:')]
tcp = dict(zip(names, map(int, values)))
device = next(line for line in open('/proc/net/dev') if 'eth0:' in line).split()
print(count, digest.hexdigest(), tcp['OutSegs'] + tcp['RetransSegs'], device[10])
"#;

#[test]
fn tcp_left_uncut_loses_and_counts_by_the_segment() {
    if !has("python3") {
        return;
    }
    let bed = Bed::new();
    bed.write("tcp.py", PROGRAM);
    bed.write(
        "e.yaml",
        &format!(
            "experiment: bulk
nodes: {{client: {{}}, server: {{}}}}
networks:
  field:
    attach: [client, server]
    subnet: 10.0.0.0/24
    offload: true
    links:
      client: {{up: {{delay: 1 ms, loss: 1 %}}}}
  other: {{attach: [client, server], subnet: 10.0.1.0/24}}
workloads:
  - command: {{on: server, run: [python3, tcp.py, take]}}
  - command: {{on: client, run: [python3, tcp.py, give, '{BYTES}']}}
duration: 2 s
drain: 1 min
"
        ),
    );
    bed.thingbed(&["run", "e.yaml", "-q"]).ran(&[]);
    let folder = bed.sweep("bulk");
    let said = |name: &str| -> Vec<String> {
        let text = fs::read_to_string(folder.join("programs").join(name)).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let (took, gave) = (said("server.0.out"), said("client.1.out"));
    assert!(gave[0].parse::<usize>().unwrap() >= BYTES);
    assert_eq!(took[..2], gave[..2], "every byte arrived");

    let (summary, run) = (json(&folder.join("summary.json")), json(&folder.join("run.json")));
    for (group, said) in [("client", &gave), ("server", &took)] {
        let of = |key: &str| figure(&summary, &format!(".groups.{group}.{key}"));
        assert_eq!(of("kernel_tx_frames"), of("medium_tx_frames"), "{summary:#}");
        assert_eq!(of("kernel_rx_frames"), of("medium_rx_frames"), "{summary:#}");
        // Segments sent, according to the kernel's TCP. A few frames are not TCP.
        let segments: f64 = said[2].parse().unwrap();
        let others = of("tx_frames") - segments;
        assert!((0.0..20.0).contains(&others), "{segments} segments, {summary:#}");
        assert!(of("tx_bytes") <= 1514.0 * of("tx_frames"), "{summary:#}");
    }
    let client = |key: &str| figure(&summary, &format!(".groups.client.{key}"));
    assert!(client("tx_frames") > BYTES as f64 / 1448.0);
    if run["frame_path"] != "packet" {
        assert_eq!(run["offload"], serde_json::json!(["field"]));
        let uncut: f64 = gave[3].parse().unwrap();
        assert!(uncut < client("tx_frames") / 1.5, "{uncut} frames before they were cut");
    }
    // Five standard errors of a binomial of 14,000.
    let lost = figure(&summary, ".links.loss_got_pct");
    assert!((lost - 1.0).abs() < 0.42, "{lost} % lost");
    assert!(client("retransmitted_frames") > 50.0, "{summary:#}");
}
