"use strict";
// Logs of the chosen node, and a terminal in it.
// Characters of a log.
var reading = null, MOST_SHOWN = 200000;
function showLogs() {
  if (reading) reading.abort();
  if (!chosen) return;
  var own = reading = new AbortController(), box = id("logs");
  var length = 0, late = "", due = false;
  box.textContent = "";
  // A few times a second at most: a program can print much.
  var write = function () {
    due = false;
    if (own.signal.aborted) return;
    var atEnd = box.scrollTop + box.clientHeight >= box.scrollHeight - 8;
    var shown = plain(late.slice(-MOST_SHOWN));
    late = "";
    box.appendChild(document.createTextNode(shown));
    length += shown.length;
    while (length > MOST_SHOWN && box.childNodes.length > 1) {
      length -= box.firstChild.length;
      box.firstChild.remove();
    }
    if (atEnd) box.scrollTop = box.scrollHeight;
  };
  connection.stream("api/logs?node=" + encodeURIComponent(chosen), function (text) {
    late += text;
    if (!due) setTimeout(write, 200);
    due = true;
  }, own.signal).catch(function () {});
}

var terminal = null, socket = null, inside = null;
// The open terminal stays in its node when another one is chosen.
function terminalTitle() {
  if (terminal && !socket && inside !== chosen) closeTerminal();
  id("h-terminal").textContent = "Terminal in " + (inside || chosen);
}
function size() {
  var width = Math.max(160, id("terminal").clientWidth - 34);
  return { cols: Math.max(20, Math.floor(width / 8.5)), rows: 20 };
}
function closeTerminal() {
  if (socket) { socket.onclose = socket.onmessage = null; socket.close(); }
  if (terminal) terminal.dispose();
  socket = terminal = inside = null;
  terminalTitle();
  id("open").textContent = "Open a shell";
}
id("open").addEventListener("click", function () {
  if (socket) { closeTerminal(); return; }
  closeTerminal();
  var now = size(), own = new Terminal({ rows: now.rows, cols: now.cols, fontSize: 14, screenReaderMode: true, theme: { background: "#101418" } });
  terminal = own;
  inside = chosen;
  own.open(id("terminal"));
  // A keyboard must be able to leave: Tab belongs to the shell.
  own.attachCustomKeyEventHandler(function (event) {
    if (event.ctrlKey && event.key === "]") {
      if (event.type === "keydown") { event.preventDefault(); own.blur(); id("open").focus(); }
      return false;
    }
    return true;
  });
  var query = "node=" + encodeURIComponent(chosen) + "&rows=" + now.rows + "&cols=" + now.cols;
  var channel = socket = connection.socket("api/terminal?" + query), encoder = new TextEncoder();
  channel.binaryType = "arraybuffer";
  channel.onmessage = function (event) {
    if (typeof event.data === "string") own.write("\r\n[" + event.data.replace(/[\x00-\x1f]/g, " ") + "]\r\n");
    // The server waits for what the terminal has not shown yet.
    else own.write(new Uint8Array(event.data), function () {
      if (channel.readyState === 1) channel.send(JSON.stringify({ shown: event.data.byteLength }));
    });
  };
  channel.onclose = function () { socket = null; id("open").textContent = "Open a shell"; };
  own.onData(function (data) { if (channel.readyState === 1) channel.send(encoder.encode(data)); });
  own.onResize(function (to) { if (channel.readyState === 1) channel.send(JSON.stringify({ rows: to.rows, cols: to.cols })); });
  own.focus();
  id("open").textContent = "Close the shell";
});
addEventListener("resize", function () { if (terminal) terminal.resize(size().cols, size().rows); });
