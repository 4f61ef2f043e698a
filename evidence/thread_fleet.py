"""Times to join, states and pings of experiments/devices/thread-fleet.yaml: thread_fleet.py RUN."""

import collections
import pathlib
import re
import sys

# When thread-device.sh asks for the state, in s after `thread start`.
ASKED = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30]
JOINED = {"leader", "router", "child"}

joined: list[int | None] = []
times: list[int] = []
last: collections.Counter[str] = collections.Counter()
pings: collections.Counter[str] = collections.Counter()
counters: collections.Counter[str] = collections.Counter()
for output in sorted((pathlib.Path(sys.argv[1]) / "programs").glob("thread-*.run.out")):
    text = output.read_text(errors="replace")
    states = re.findall(r"^(leader|router|child|detached|disabled)\s*$", text, re.M)
    at = [time for time, state in zip(ASKED, states, strict=False) if state in JOINED]
    joined.append(at[0] if at else None)
    last[states[-1] if states else "no state"] += 1
    for sent, received in re.findall(r"(\d+) packets transmitted, (\d+) packets received", text):
        pings["sent"] += int(sent)
        pings["answered"] += int(received)
    times += [int(time) for time in re.findall(r"icmp_seq=\d+ hlim=\d+ time=(\d+)ms", text)]
    for name, value in re.findall(r"^\s*((?:Tx|Rx)\w+): (\d+)", text, re.M):
        counters[name] += int(value)
print("joined within s:", sorted(collections.Counter(joined).items(), key=str))
print("last state:", dict(last))
print("pings:", dict(pings))
if times:
    times.sort()
    percentiles = [times[len(times) * share // 100] for share in (5, 50, 95)]
    print("round trip, ms:", percentiles, "5th, 50th, 95th percentile")
names = ["TxUnicast", "TxBroadcast", "TxAckRequested", "TxAcked", "TxRetry"]
names += ["TxDirectMaxRetryExpiry", "RxDuplicated"]
print({name: counters[name] for name in names})
