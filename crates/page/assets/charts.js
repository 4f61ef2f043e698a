"use strict";
// Figures by node over time.
var MOST_POINTS = 300, MOST_LINES = 8;
// Figures of each node in the second before this state.
function measure(state, before) {
  var seconds = before ? (state.at - before.at) / 1000 : 0, old = table(), links = table();
  if (before) before.nodes.forEach(function (node) { old[node.name] = node; });
  state.links.forEach(function (link) {
    var key = link.node + "\n" + link.network + "\n" + link.way;
    links[key] = link.traffic;
    var was = before && before.traffic[key], sum = links["\n" + link.node] = links["\n" + link.node] || [0, 0, 0];
    if (!was) return;
    var passed = link.traffic.passed - was.passed;
    sum[0] += link.traffic.delay_ms - was.delay_ms;
    sum[1] += passed;
    sum[2] += link.traffic.lost - was.lost + link.traffic.dropped - was.dropped;
  });
  if (began === null) began = state.at;
  state.traffic = links;
  figures = table();
  state.nodes.forEach(function (node) {
    var was = old[node.name], sum = links["\n" + node.name] || [0, 0, 0];
    var rate = function (now, then) { return was && seconds > 0 ? Math.max(0, now - then) / seconds : null; };
    figures[node.name] = {
      out: rate(node.sent[1], was && was.sent[1]) * 8 / 1000, in: rate(node.received[1], was && was.received[1]) * 8 / 1000,
      delay: sum[1] > 0 ? sum[0] / sum[1] : null,
      loss: sum[1] + sum[2] > 0 ? 100 * sum[2] / (sum[1] + sum[2]) : null,
      cpu: rate(node.cpu_ms, was && was.cpu_ms) / 10, memory: node.memory_bytes / 1e6
    };
    if (!was) return;
    var points = past[node.name] = past[node.name] || [];
    points.push([(state.at - began) / 1000, figures[node.name]]);
    if (points.length > MOST_POINTS) points.shift();
  });
}

var charts = {}, dark = matchMedia("(prefers-color-scheme: dark)");
function draw(state) {
  var top = state.nodes.map(function (node) { return node.name; }).filter(function (name) { return past[name]; });
  var busy = function (name) { return name === chosen ? Infinity : figures[name].out + figures[name].in; };
  if (top.length > MOST_LINES) top.sort(function (a, b) { return busy(b) - busy(a); });
  top = top.slice(0, MOST_LINES).sort();
  var soft = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
  var line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
  [["rate", "out"], ["delay", "delay"], ["loss", "loss"]].forEach(function (pair) {
    if (!charts[pair[0]]) charts[pair[0]] = echarts.init(id(pair[0]));
    charts[pair[0]].setOption({
      animation: false, grid: { left: 6, right: 12, top: 10, bottom: 4, containLabel: true },
      xAxis: { type: "value", min: "dataMin", max: "dataMax", axisLabel: { color: soft, formatter: clock }, axisLine: { lineStyle: { color: soft } }, splitLine: { show: false }, splitNumber: 4 },
      // No loss is above 100 %; null leaves the end to the chart.
      yAxis: { type: "value", min: 0, max: pair[0] === "loss" ? function (extent) { return extent.max > 80 ? 100 : null; } : null, splitNumber: 3, axisLabel: { color: soft }, splitLine: { lineStyle: { color: line } } },
      series: top.map(function (name, place) {
        return { type: "line", name: name, showSymbol: past[name].length < 2, symbolSize: 4, silent: true,
                 data: past[name].map(function (point) { return [point[0], point[1][pair[1]] === null ? "-" : point[1][pair[1]]]; }),
                 lineStyle: { color: COLOURS[place], width: name === chosen ? 2.6 : 1.6 }, itemStyle: { color: COLOURS[place] } };
      })
    }, true);
  });
  var keys = id("keys"), names = top.join("\n");
  if (keys.dataset.names !== names) {
    keys.dataset.names = names;
    keys.textContent = "";
    top.forEach(function (name, place) {
      var key = element("span", "", keys);
      element("i", "", key).style.background = COLOURS[place];
      key.appendChild(document.createTextNode(name));
    });
  }
}
addEventListener("resize", function () {
  Object.keys(charts).forEach(function (name) { charts[name].resize(); });
});
