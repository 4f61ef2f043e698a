"use strict";
// The page: shows the states that arrive.
var MOST_ROWS = 200;
function choose(name) {
  if (chosen === name) return;
  chosen = name;
  shownLinks = "";
  showLogs();
  show(last);
}

var rows = table();
function nodes(state) {
  var body = id("nodes"), wanted = id("filter").querySelector("input").value.trim();
  id("filter").hidden = state.nodes.length < 12;
  var all = state.nodes.filter(function (node) { return node.name.indexOf(wanted) >= 0; });
  var shown = all.slice(0, MOST_ROWS), kept = table();
  shown.forEach(function (node, place) {
    var row = rows[node.name];
    if (!row) {
      row = rows[node.name] = element("tr");
      var name = element("td", "", row);
      button(node.name, name, function () { choose(node.name); });
      for (var cell = 1; cell < 8; cell++) element("td", "", row).className = cell > 1 ? "n" : "state";
    }
    kept[node.name] = true;
    var one = figures[node.name], cells = row.cells;
    cells[0].firstChild.setAttribute("aria-pressed", node.name === chosen);
    cells[1].textContent = node.state || "no program";
    cells[1].className = "state " + (node.state ? kind(node.state) : "none");
    [one.out, one.in, one.delay, one.loss, one.cpu, one.memory].forEach(function (value, at) {
      cells[at + 2].textContent = number(value);
    });
    if (body.children[place] !== row) body.insertBefore(row, body.children[place] || null);
  });
  Object.keys(rows).forEach(function (name) {
    if (!kept[name]) { rows[name].remove(); delete rows[name]; }
  });
  id("more").textContent = all.length > shown.length ? (all.length - shown.length) + " more nodes not shown" : "";
}
id("filter").querySelector("input").addEventListener("input", function () { if (last) nodes(last); });

function node(state) {
  var found = state.nodes.filter(function (one) { return one.name === chosen; })[0];
  if (!found) {
    chosen = state.nodes.length ? state.nodes[0].name : null;
    if (chosen) { showLogs(); return node(state); }
    return;
  }
  id("h-node").textContent = "Node " + found.name;
  id("h-logs").textContent = "Logs of " + found.name;
  terminalTitle();
  id("about").textContent = found.interfaces.map(function (one) { return one[1] + " on " + one[0]; }).join(", ") +
    (found.program ? " · " + plain(cut(found.program, 300)) : "") + (found.state ? " · " + found.state : " · no program");
  actions(found);
}

function show(state) {
  if (!state || !state.lab) return;
  node(state);
  nodes(state);
  links(state);
  topology(state);
  draw(state);
  timeline(state);
}

function onState(state) {
  id("key").hidden = true;
  lost = false;
  state.at = state.at_ms;
  if (!state.lab) {
    id("facts").textContent = last ? "no lab is up now; the next run has not begun" : "the lab is not up yet";
    id("lab").hidden = true;
    id("end").hidden = true;
    last = null;
    past = table();
    return;
  }
  // Two pages share an answer of the lab.
  if (last && last.at === state.at) return;
  if (last && last.lab.folder !== state.lab.folder) { last = null; past = table(); closeTerminal(); showLogs(); }
  measure(state, last);
  last = state;
  id("lab").hidden = false;
  id("end").hidden = false;
  document.title = state.lab.experiment + " · Thingbed";
  id("name").textContent = state.lab.experiment;
  id("end").textContent = state.lab.run ? "Stop the run" : "Stop the lab";
  id("facts").textContent = (state.lab.run ? "run" : "lab") + " of process " + state.lab.pid + " · " + state.lab.nodes +
    " nodes · up for " + Math.round(seconds(state.lab.up_for)) + " s · " + state.lab.folder;
  show(state);
}

function onLost(error) {
  if (error && error.status === 401) {
    id("facts").textContent = "";
    id("key").hidden = false;
    return;
  }
  id("facts").textContent = "the lab has ended, or its page was stopped";
  id("end").hidden = true;
  lost = true;
  show(last);
  setTimeout(connect, 3000);
}

function connect() {
  connection.states(onState, onLost);
}

id("key").addEventListener("submit", function (event) {
  event.preventDefault();
  connection.setToken(event.target.token.value.trim());
  connect();
});
id("end").className = "danger";
id("end").addEventListener("click", function () {
  var what = last && last.lab.run ? "the run; results so far are reported" : "the lab and all its programs";
  if (confirm("Stop " + what + "?")) send({ end: {} });
});
dark.addEventListener("change", function () { show(last); });
connect();
