"use strict";
// The topology, and the time line of faults and changes.
var MOST_DRAWN = 60;
function topology(state) {
  var picture = id("topology");
  picture.textContent = "";
  var networks = [];
  state.nodes.forEach(function (one) {
    one.interfaces.forEach(function (at) { if (networks.indexOf(at[0]) < 0) networks.push(at[0]); });
  });
  // Too many nodes become their groups.
  var many = state.nodes.length > MOST_DRAWN, boxes = [], byName = table();
  state.nodes.forEach(function (one) {
    var name = many ? one.group : one.name, box = byName["=" + name];
    if (!box) boxes.push(box = byName["=" + name] = { name: name, node: one.name, count: 0, networks: table(), ended: false });
    box.count++;
    box.ended = box.ended || kind(one.state) === "ended";
    one.interfaces.forEach(function (at) { box.networks[at[0]] = true; });
  });
  var half = Math.ceil(boxes.length / 2), per = Math.min(8, Math.max(half, networks.length, 1)), width = 124;
  var rowsAbove = Math.ceil(half / per), rowsBelow = Math.ceil((boxes.length - half) / per);
  var whole = per * width, middle = rowsAbove * 58 + 34, height = middle + 24 + rowsBelow * 58;
  picture.setAttribute("viewBox", "0 0 " + whole + " " + height);
  // A few nodes are not drawn larger than their text.
  picture.style.maxWidth = Math.round(1.3 * whole) + "px";
  picture.setAttribute("aria-label", state.nodes.length + " nodes on the networks " + networks.join(", "));
  var place = function (index, count, row, top) {
    var inRow = Math.min(per, count - row * per);
    return { x: whole / 2 + (index % per - (inRow - 1) / 2) * width, y: top + row * 58 };
  };
  var nets = table();
  networks.forEach(function (name, index) {
    nets["=" + name] = { x: whole * (index + 0.5) / networks.length, y: middle };
  });
  var downs = table();
  state.links.forEach(function (link) {
    var one = state.nodes.filter(function (node) { return node.name === link.node; })[0];
    if (one && link.down) downs[(many ? one.group : one.name) + "\n" + link.network] = true;
  });
  boxes.forEach(function (box, index) {
    var above = index < half, at = above ? index : index - half, count = above ? half : boxes.length - half;
    box.at = place(at, count, Math.floor(at / per), above ? 26 : middle + 58);
    Object.keys(box.networks).forEach(function (name) {
      var net = nets["=" + name];
      drawing("line", { x1: box.at.x, y1: box.at.y, x2: net.x, y2: net.y, class: downs[box.name + "\n" + name] ? "down" : "" }, picture);
    });
  });
  networks.forEach(function (name) {
    var net = nets["=" + name], group = drawing("g", { class: "network" }, picture);
    drawing("rect", { x: net.x - 56, y: net.y - 15, width: 112, height: 30, rx: 15 }, group);
    drawing("text", { x: net.x, y: net.y + 4 }, group, cut(name, 15));
  });
  boxes.forEach(function (box) {
    var group = drawing("g", { class: "node" + (box.node === chosen ? " chosen" : "") + (box.ended ? " ended" : "") }, picture);
    drawing("rect", { x: box.at.x - 54, y: box.at.y - 20, width: 108, height: 40, rx: 5 }, group);
    drawing("text", { x: box.at.x, y: box.at.y - 2 }, group, cut(box.name, 15));
    var one = figures[box.node];
    var sub = box.count > 1 ? box.count + " nodes" : one ? number(one.out) + " kbit/s" : "";
    drawing("text", { x: box.at.x, y: box.at.y + 13, class: "sub" }, group, sub);
    group.addEventListener("click", function () { choose(box.node); });
  });
}
var shownTimeline = "";
function timeline(state) {
  var up = seconds(state.lab.up_for), strip = id("strip"), width = strip.clientWidth || 600;
  var all = state.timeline;
  var end = all.reduce(function (most, one) { return Math.max(most, one.at_s || 0); }, Math.max(up, 1));
  strip.textContent = "";
  strip.setAttribute("viewBox", "0 0 " + width + " 38");
  var x = function (at) { return 8 + (width - 16) * at / end; };
  drawing("line", { x1: 8, x2: width - 8, y1: 14, y2: 14 }, strip);
  drawing("line", { x1: x(up), x2: x(up), y1: 4, y2: 24 }, strip);
  all.forEach(function (one) {
    if (one.at_s === null) return;
    drawing("title", {}, drawing("circle", { cx: x(one.at_s), cy: 14, r: 5, class: one.planned ? "planned" : "" }, strip), one.what);
  });
  drawing("text", { x: 8, y: 36 }, strip, "0 s");
  var now = drawing("text", { x: x(up), y: 36 }, strip, "now, " + Math.round(up) + " s");
  now.setAttribute("text-anchor", x(up) > width - 60 ? "end" : x(up) < 60 ? "start" : "middle");
  var key = JSON.stringify(all);
  if (key === shownTimeline) return;
  shownTimeline = key;
  var list = id("timeline");
  list.textContent = "";
  all.slice().reverse().slice(0, 200).forEach(function (one) {
    var item = element("li", "", list);
    element("b", one.at_s === null ? "" : number(one.at_s) + " s", item);
    item.appendChild(document.createTextNode(" " + one.what + (one.planned ? " (planned)" : "")));
  });
  if (!all.length) element("li", "None yet. Faults of the experiment file and changes by hand appear here.", list);
}
