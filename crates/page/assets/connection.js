"use strict";
// Talks to the server of the page: the token, requests, the stream of states.
var connection = (function () {
  var KEY = "thingbed-token";
  // The part behind # is not sent to the server, and a session's storage belongs to this port only.
  var given = /^#token=([\w-]+)$/.exec(location.hash);
  if (given) {
    sessionStorage.setItem(KEY, given[1]);
    history.replaceState(null, "", location.pathname);
  }

  function token() { return sessionStorage.getItem(KEY) || ""; }

  function headers(more) { return Object.assign({ Authorization: "Bearer " + token() }, more); }

  // Sends a request of the live commands; resolves to its reply, or rejects with the reason.
  function ask(request) {
    return fetch("api/request", {
      method: "POST", headers: headers({ "Content-Type": "application/json" }), body: JSON.stringify(request)
    }).then(function (response) {
      return response.text().then(function (text) {
        var reply;
        try { reply = JSON.parse(text); } catch (_) { throw new Error(text || "the server did not answer"); }
        if (reply.refused || reply.wrong) throw new Error(reply.refused || reply.wrong);
        if (reply.ending) throw new Error("the lab is ending; this request did not run");
        return reply;
      });
    });
  }

  // Reads a streaming answer; calls `part` with each piece of text. Resolves at its end.
  function stream(path, part, signal) {
    return fetch(path, { headers: headers(), signal: signal }).then(function (response) {
      if (!response.ok) {
        return response.text().then(function (text) {
          var error = new Error(text);
          error.status = response.status;
          throw error;
        });
      }
      var reader = response.body.getReader(), decoder = new TextDecoder();
      return (function next() {
        return reader.read().then(function (read) {
          if (read.done) return;
          part(decoder.decode(read.value, { stream: true }));
          return next();
        });
      })();
    });
  }

  // Calls `state` with each state of the lab, and `lost` when the connection breaks. Server-sent events by
  // fetch: EventSource cannot send the token.
  function states(state, lost) {
    var rest = "";
    stream("api/events", function (text) {
      var events = (rest + text).split("\n\n");
      rest = events.pop();
      events.forEach(function (event) {
        var data = event.split("\n").filter(function (line) { return line.indexOf("data:") === 0; })
          .map(function (line) { return line.slice(5); }).join("\n");
        if (data) state(JSON.parse(data));
      });
    }).then(function () { lost(null); }, lost);
  }

  function socket(path) {
    var url = location.origin.replace(/^http/, "ws") + "/" + path;
    return new WebSocket(url, ["thingbed", "token." + token()]);
  }

  return {
    ask: ask, stream: stream, states: states, socket: socket,
    setToken: function (text) { sessionStorage.setItem(KEY, text); }
  };
})();
