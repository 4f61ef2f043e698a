"use strict";
// Elements, texts and numbers. Names are set as text, never as markup.
// All scripts of the page share their functions.
var SVG = "http://www.w3.org/2000/svg";
var COLOURS = ["#3a7bd5", "#e08a2e", "#2e9e79", "#b562c4", "#c94f5d", "#8a7f3c", "#4aa8c4", "#7d8590"];
// The chosen node, the last state, the figures of its last second by node, and earlier ones.
var chosen = null, last = null, figures = table(), past = table(), began = null;

// Values by name. A plain object would have entries already: a node may be called `constructor`.
function table() { return Object.create(null); }
function id(name) { return document.getElementById(name); }
function element(tag, text, parent) {
  var made = document.createElement(tag);
  if (text) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}
function drawing(tag, attributes, parent, text) {
  var made = document.createElementNS(SVG, tag);
  Object.keys(attributes).forEach(function (name) { made.setAttribute(name, attributes[name]); });
  if (text) made.textContent = text;
  parent.appendChild(made);
  return made;
}
function button(text, parent, action) {
  var made = element("button", text, parent);
  made.type = "button";
  made.addEventListener("click", action);
  return made;
}
function number(value, digits) {
  return value === null || value === undefined || !isFinite(value) ? "–" : value.toFixed(digits === undefined ? 1 : digits);
}
function problem(text) { id("problem").textContent = text; }
function send(request) {
  return connection.ask(request).then(function (reply) { problem(""); return reply; },
                                      function (error) { problem(error.message); });
}

function kind(state) {
  return state === "paused" ? "paused" : ["running", "waiting"].includes(state) || !state ? "" : "ended";
}

// Control characters, and those that change the direction of text, become dots.
function plain(text) { return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/g, "·"); }

function cut(text, most) { return text.length > most ? text.slice(0, most - 1) + "…" : text; }

function time(text) {
  var match = /^([\d.]+)\s*(ns|us|ms|s)?$/.exec(String(text || "0").trim());
  return match ? Number(match[1]) * { ns: 1e-6, us: 1e-3, ms: 1, s: 1000 }[match[2] || "ms"] : 0;
}
function rate(text) {
  var match = /^([\d.]+)\s*([kMG]?)bit\/s$/.exec(String(text || "").trim());
  return match ? Number(match[1]) * { "": 1e-3, k: 1, M: 1e3, G: 1e6 }[match[2]] : null;
}

function clock(seconds) {
  var all = Math.round(seconds), rest = all % 60;
  return Math.floor(all / 60) + ":" + (rest < 10 ? "0" : "") + rest;
}
function seconds(span) { return time(String(span)) / 1000; }
