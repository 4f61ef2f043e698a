"""Joins, partitions and pings of experiments/devices/thread-fleet.yaml: thread_fleet.py RUN."""

import collections
import pathlib
import re
import sys

# When thread-device.sh asks for the state, in s after `thread start`.
ASKED = [1, 2, 3, 4, 5, 7, 10, 15, 20, 30]
JOINED = {"leader", "router", "child"}

joined: list[int | None] = []
times: list[int] = []
rounds: list[int] = []
last: collections.Counter[str] = collections.Counter()
partitions: collections.Counter[str] = collections.Counter()
lost_states: collections.Counter[str] = collections.Counter()
pings: collections.Counter[str] = collections.Counter()
counters: collections.Counter[str] = collections.Counter()
for output in sorted((pathlib.Path(sys.argv[1]) / "programs").glob("thread-*.run.out")):
    text = output.read_text(errors="replace")
    states = re.findall(r"^(leader|router|child|detached|disabled)\s*$", text, re.M)
    at = [time for time, state in zip(ASKED, states, strict=False) if state in JOINED]
    joined.append(at[0] if at else None)
    last[states[-1] if states else "no state"] += 1
    lost_states.update(state for state in states[len(ASKED) :] if state not in JOINED)
    # With the command: a routing locator (`rloc16`) may also consist of digits.
    numbers = re.findall(r"partitionid\s+(\d+)\s*$", text, re.M)
    partitions[numbers[-1] if numbers else "no partition"] += 1
    ended = re.findall(r"(\d+) packets transmitted, (\d+) packets received", text)
    rounds.append(len(ended))
    for sent, received in ended:
        pings["sent"] += int(sent)
        pings["answered"] += int(received)
    times += [int(time) for time in re.findall(r"icmp_seq=\d+ hlim=\d+ time=(\d+)ms", text)]
    for name, value in re.findall(r"^\s*((?:Tx|Rx)\w+): (\d+)", text, re.M):
        counters[name] += int(value)
print("joined within s:", sorted(collections.Counter(joined).items(), key=str))
print("last state:", dict(last), "not joined during pings:", dict(lost_states))
print("last partition:", sorted(partitions.values(), reverse=True), "devices")
print("pings:", dict(pings), "rounds:", [min(rounds, default=0), max(rounds, default=0)])
if times:
    times.sort()
    percentiles = [times[len(times) * share // 100] for share in (5, 50, 95)]
    print("round trip, ms:", percentiles, "5th, 50th, 95th percentile")
names = ["TxUnicast", "TxBroadcast", "TxAckRequested", "TxAcked", "TxRetry"]
names += ["TxDirectMaxRetryExpiry", "RxDuplicated"]
print({name: counters[name] for name in names})
