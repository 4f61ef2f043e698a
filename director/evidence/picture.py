"""Draws which model wins where on a performance map (SVG).

    director/evidence/picture.py director/core/map.json docs/pictures/map.svg

Each field is a point of the map, in the colour of the cheapest model there. The cost is that
of the director for a session that needs all answers: the mean of the delay's median, 90th and
99th percentile, divided by the share that arrives, plus the same again for each missing percent.
Fields are paler where the second-best model costs less than 15 % more: not worth a change.
"""

from __future__ import annotations

import json
import sys
from html import escape
from itertools import product
from pathlib import Path

COLOURS = {
    "udp-request-response": "#4477aa",
    "udp-arq": "#228833",
    "multicast-fec": "#cc6677",
    "coap-confirmable": "#ccbb44",
    "coap-non-confirmable": "#66ccee",
    "quic-streams": "#aa3377",
    "quic-datagrams": "#bbbbbb",
}
FIELD, GAP, LEFT, TOP = 26, 8, 250, 96
# Cost ratio below which a change of model is not worth it.
GAIN = 1.15

Place = dict[str, float]


def cost(figures: dict[str, object]) -> float:
    """The cost of a model in ms."""
    delay = figures["delay_ms"]
    assert isinstance(delay, dict)
    delivery = float(str(figures["delivery"]))
    mean = sum(float(delay[name]) for name in ("p50", "p90", "p99")) / 3
    return mean / max(delivery, 1e-3) * (1 + 100 * max(0.0, 0.999 - delivery))


def read(path: Path) -> dict[tuple[float, ...], dict[str, float]]:
    """The cost of each model at each point of the map."""
    places: dict[tuple[float, ...], dict[str, float]] = {}
    for model, points in json.loads(path.read_text())["points"].items():
        for point in points:
            at: Place = point["at"]
            key = tuple(
                at[name]
                for name in ("loss", "burst", "payload", "group", "mtu", "rate_bit_s", "rtt_ns")
            )
            places.setdefault(key, {})[model] = cost(point["figures"])
    return places


def main() -> None:
    """Reads a map and draws it."""
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    places = read(source)
    losses = sorted({key[:2] for key in places}, key=lambda loss: (loss[1], loss[0]))
    payloads = sorted({key[2] for key in places})
    groups = sorted({key[3] for key in places})
    rest = list(product(*(sorted({key[at] for key in places}) for at in (4, 5, 6))))
    width = LEFT + len(losses) * (len(payloads) * FIELD + GAP) + 20
    width = max(width, 12 + len(COLOURS) * 160)
    height = TOP + len(groups) * (len(rest) * FIELD + GAP) + 20
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for place, (model, colour) in enumerate(COLOURS.items()):
        x = 12 + place * 160
        out.append(f'<rect x="{x}" y="10" width="14" height="14" fill="{colour}"/>')
        out.append(f'<text x="{x + 20}" y="21">{escape(model)}</text>')
    wins = dict.fromkeys(COLOURS, 0)
    for column, loss in enumerate(losses):
        left = LEFT + column * (len(payloads) * FIELD + GAP)
        run = f", bursts of {loss[1]:.0f}" if loss[1] > 1 else ""
        out.append(f'<text x="{left}" y="58" font-size="9">{100 * loss[0]:.0f} %{run}</text>')
        for at, payload in enumerate(payloads):
            out.append(f'<text x="{left + at * FIELD}" y="{TOP - 6}">{payload:.0f}</text>')
        for row, group in enumerate(groups):
            top = TOP + row * (len(rest) * FIELD + GAP)
            for line, (mtu, rate, rtt) in enumerate(rest):
                y = top + line * FIELD
                if column == 0:
                    members = "1 member" if group == 1 else f"{group:.0f} members"
                    text = f"{members}, {mtu:.0f} B, {rate / 1e3:.0f} kbit/s, {rtt / 1e6:.0f} ms"
                    out.append(f'<text x="12" y="{y + 17}">{text}</text>')
                for at, payload in enumerate(payloads):
                    costs = places[(*loss, payload, group, mtu, rate, rtt)]
                    order = sorted(costs, key=lambda model: costs[model])
                    best, next_best = order[0], order[1]
                    wins[best] += 1
                    pale = costs[next_best] < GAIN * costs[best]
                    x = left + at * FIELD
                    title = ", ".join(f"{model} {costs[model]:.0f} ms" for model in order)
                    out.append(
                        f'<rect x="{x}" y="{y}" width="{FIELD - 2}" height="{FIELD - 2}" '
                        f'fill="{COLOURS[best]}" fill-opacity="{0.4 if pale else 1}">'
                        f"<title>{escape(title)}</title></rect>"
                    )
    out.append('<text x="12" y="58">frame loss; below it the payload, B</text>')
    out.append("</svg>")
    target.write_text("\n".join(out) + "\n")
    for model, count in wins.items():
        print(f"{model}: {count} of {len(places)}")


if __name__ == "__main__":
    main()
