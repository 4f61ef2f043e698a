"use strict";
// The controls of the chosen node: its program and its links.
["start", "stop", "restart", "kill", "pause", "resume"].forEach(function (what) {
  button(what[0].toUpperCase() + what.slice(1), id("actions"), function () {
    send({ inject_fault: { what: what, nodes: [chosen] } });
  }).className = what === "kill" ? "danger" : "";
});

// Whether the connection to the lab is lost.
var lost = false;
// Enables the buttons of a node with a program.
function actions(node) {
  id("actions").querySelectorAll("button").forEach(function (one) { one.disabled = lost || !node.state; });
}

var SLIDERS = [
  { key: "delay", label: "Delay", most: 100, unit: "ms",
    // Finer at short delays: 0 to 2000 ms.
    value: function (at) { return Math.round(at * at / 5); }, at: function (value) { return Math.sqrt(value * 5); },
    read: function (text) { return time(text); }, text: function (value) { return value + " ms"; } },
  { key: "loss", label: "Loss", most: 100, unit: "%",
    value: function (at) { return at; }, at: function (value) { return value; },
    read: function (text) { return parseFloat(text) || 0; }, text: function (value) { return value + " %"; } },
  { key: "rate", label: "Rate", most: 61, unit: "kbit/s",
    // From 1 kbit/s in steps of a tenth of a decade; the last position is no limit.
    value: function (at) { return at > 60 ? null : Number(Math.pow(10, at / 10).toPrecision(2)); },
    at: function (value) { return value === null ? 61 : Math.max(0, 10 * Math.log10(value)); },
    read: function (text) { return rate(text); },
    text: function (value) {
      return value === null ? "no limit" : value >= 1000 ? Number((value / 1000).toPrecision(3)) + " Mbit/s" : value + " kbit/s";
    } }
];
var shownLinks = "", panels = [];
function links(state) {
  var own = state.links.filter(function (link) { return link.node === chosen; });
  var key = JSON.stringify(own.map(function (link) { return [link.node, link.network, link.way]; }));
  if (key !== shownLinks) {
    shownLinks = key;
    id("links").textContent = own.length ? "" : "This node has no links.";
    panels = own.map(panel);
  }
  panels.forEach(function (update, place) { update(own[place]); });
}

// The controls of one direction of a link; returns what updates them.
function panel(link) {
  var set = element("fieldset", "", id("links"));
  var way = link.way === "up" ? "from the node" : "to the node";
  element("legend", link.network + ", " + way, set);
  var which = { nodes: [link.node], network: link.network, way: link.way };
  var inputs = SLIDERS.map(function (slider) {
    var line = element("label", "", set);
    line.className = "slider";
    element("span", slider.label, line);
    var input = element("input", "", line), output = element("output", "", line);
    input.type = "range";
    input.min = 0;
    input.max = slider.most;
    input.dataset.key = slider.key;
    input.setAttribute("aria-label", slider.label + ", " + link.network + ", " + way);
    // The link's value is shown as it is, also between two positions.
    var show = function (value) {
      output.textContent = slider.text(value === undefined ? slider.value(Number(input.value)) : value);
      input.setAttribute("aria-valuetext", output.textContent);
    };
    input.addEventListener("input", function () { input.touched = Date.now(); show(undefined); });
    input.addEventListener("change", function () {
      input.touched = Date.now();
      var value = slider.value(Number(input.value));
      var text = value === null ? "" : slider.text(value);
      send({ set: { links: which, set: [[slider.key, text]], over: "0 s" } });
    });
    return [slider, input, show];
  });
  var now = element("p", "", set);
  now.className = "now";
  var row = element("form", "", set);
  row.className = "row";
  var label = element("label", "Other ", row), text = element("input", "", label);
  text.type = "text";
  text.placeholder = "jitter=5 ms";
  button("Set", row, function () { row.requestSubmit(); });
  var toggle = button("", row, function () {
    send({ down: { links: which, down: toggle.dataset.down !== "true" } });
  });
  row.addEventListener("submit", function (event) {
    event.preventDefault();
    var pair = text.value.split("=");
    if (pair.length !== 2) { problem("write KEY=VALUE, for example jitter=5 ms"); return; }
    send({ set: { links: which, set: [[pair[0].trim(), pair[1].trim()]], over: "0 s" } }).then(function (reply) {
      if (reply) text.value = "";
    });
  });
  return function (link) {
    inputs.forEach(function (one) {
      // Not while the user moves it.
      if (one[1].touched && Date.now() - one[1].touched < 2500) return;
      var value = one[0].read(link.now[one[0].key]);
      one[1].value = Math.round(one[0].at(value));
      one[2](value === null ? null : Number(value.toPrecision(4)));
    });
    var settings = Object.keys(link.now).filter(function (name) { return link.now[name] !== null; });
    now.textContent = (link.down ? "Link is down. " : "") + settings.map(function (name) {
      var value = link.now[name];
      return name + " " + (typeof value === "object" ? JSON.stringify(value) : value);
    }).join(", ");
    toggle.dataset.down = link.down;
    toggle.textContent = link.down ? "Take up" : "Take down";
  };
}
