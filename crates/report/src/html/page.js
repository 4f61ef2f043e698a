"use strict";
// The charts of a page: drawing, values at the pointer or by arrow keys, sections that fold.
// Names come from files: they are only ever set as text, never as markup.
var report = (function () {
  var specs = JSON.parse(document.getElementById("charts").textContent);
  var dark = matchMedia("(prefers-color-scheme: dark)");
  var narrow = matchMedia("(max-width: 700px)");
  var drawn = [], redraws = [];
  var hidden = {};

  function theme(soft, line) {
    var axis = {
      axisLine: { lineStyle: { color: soft } }, axisLabel: { color: soft, fontSize: 11 },
      axisTick: { lineStyle: { color: line } }, nameTextStyle: { color: soft, fontSize: 11 },
      splitLine: { lineStyle: { color: line } }
    };
    var bare = Object.assign({}, axis, { splitLine: { show: false } });
    return { valueAxis: axis, logAxis: axis, categoryAxis: bare,
             bar: { label: { color: soft } }, textStyle: { fontFamily: "inherit" } };
  }
  echarts.registerTheme("light", theme("#5b6675", "#e3e7ec"));
  echarts.registerTheme("dark", theme("#98a3b1", "#2b323c"));

  function element(tag, text, parent) {
    var made = document.createElement(tag);
    if (text) made.textContent = text;
    if (parent) parent.appendChild(made);
    return made;
  }

  var tip = element("div", "", document.body);
  tip.id = "tip";
  tip.setAttribute("aria-hidden", "true");
  var spoken = element("div", "", document.querySelector("main"));
  spoken.id = "spoken";
  spoken.setAttribute("aria-live", "polite");

  function shown(value) {
    if (value === null || value === undefined || isNaN(value)) return "–";
    if (value === 0) return "0";
    var size = Math.abs(value);
    return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) :
      size >= 0.1 ? value.toFixed(2) : value.toPrecision(2);
  }

  function fill(title, rows) {
    tip.textContent = "";
    element("b", title, tip);
    rows.forEach(function (row) {
      var line = element("div", "", tip);
      element("i", "", line).style.background = row[0];
      line.appendChild(document.createTextNode(row[1] + "  " + row[2]));
    });
  }

  // The option of a chart without the cells that the reader has hidden; null if none is left.
  function optionOf(spec) {
    var kept = function (_, place) { return !hidden[spec.cells[place]]; };
    if (!spec.cells || !spec.cells.length || spec.cells.every(kept)) return spec.option;
    if (!spec.cells.some(function (_, place) { return kept(_, place); })) return null;
    var option = Object.assign({}, spec.option);
    if (spec.lines) {
      option.series = option.series.filter(kept);
    } else {
      option.xAxis = Object.assign({}, option.xAxis, { data: option.xAxis.data.filter(kept) });
      option.series = option.series.map(function (series) {
        return Object.assign({}, series, { data: series.data.filter(kept) });
      });
    }
    return option;
  }

  function rowsOfBars(spec, option, place) {
    return option.series.map(function (series) {
      var item = series.data[place];
      return [item.itemStyle.color, series.name, shown(item.value) + " " + spec.y];
    });
  }

  // The last point at or before x.
  function rowsOfLines(spec, option, x) {
    return option.series.filter(function (series) { return !series.whisker; }).map(function (series) {
      var low = 0, high = series.data.length;
      while (low < high) {
        var middle = (low + high) >> 1;
        if (series.data[middle][0] <= x) low = middle + 1; else high = middle;
      }
      var value = low ? shown(series.data[low - 1][1]) + " " + spec.y : "–";
      if (low && series.ranges) {
        var range = series.ranges[low - 1].map(shown);
        if (range[0] !== range[1]) value += " (" + range[0] + " to " + range[1] + ")";
      }
      return [series.itemStyle.color, series.name, value];
    });
  }

  function rowsAt(chart, x) {
    var option = chart.option, category = option.xAxis.type === "category";
    if (chart.spec.lines && !category) {
      var word = option.xAxis.type === "log" && !chart.spec.explored ? "within " : "at ";
      return [word + shown(x) + " " + chart.spec.x, rowsOfLines(chart.spec, option, x)];
    }
    var place = Math.max(0, Math.min(Math.round(x), option.xAxis.data.length - 1));
    var rows = chart.spec.lines ? rowsOfLines(chart.spec, option, place) : rowsOfBars(chart.spec, option, place);
    return [option.xAxis.data[place], rows];
  }

  function showTip(found, left, top) {
    fill(found[0], found[1]);
    tip.style.display = "block";
    var right = document.documentElement.clientWidth - 8;
    if (left + 14 + tip.offsetWidth > right) left = Math.max(8, left - tip.offsetWidth - 14); else left += 14;
    tip.style.left = left + "px";
    tip.style.top = top + 14 + "px";
  }

  function hideTip() { tip.style.display = "none"; }

  function point(chart, event) {
    var at = [event.offsetX, event.offsetY];
    if (!chart.chart.containPixel("grid", at)) { hideTip(); return; }
    var x = chart.chart.convertFromPixel("grid", at)[0];
    showTip(rowsAt(chart, x), event.event.pageX, event.event.pageY);
  }

  // The positions that arrow keys visit: the categories, or the points of all lines.
  function positions(option) {
    if (option.xAxis.type === "category") return option.xAxis.data.map(function (_, place) { return place; });
    var all = [];
    option.series.forEach(function (series) {
      if (!series.whisker) series.data.forEach(function (item) { all.push(item[0]); });
    });
    all.sort(function (a, b) { return a - b; });
    return all.filter(function (x, place) { return !place || x > all[place - 1]; });
  }

  function key(chart, event) {
    var steps = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10, Home: -1e9, End: 1e9 };
    if (event.key === "Escape") { hideTip(); return; }
    if (!chart.chart || !(event.key in steps)) return;
    event.preventDefault();
    var all = positions(chart.option), place = chart.at === undefined ? -1 : chart.at;
    place = Math.max(0, Math.min(place + steps[event.key], all.length - 1));
    chart.at = place;
    var found = rowsAt(chart, all[place]);
    var box = chart.box.getBoundingClientRect();
    var x = chart.chart.convertToPixel({ xAxisIndex: 0 }, all[place]);
    showTip(found, box.left + scrollX + (isFinite(x) ? x : 0), box.top + scrollY);
    spoken.textContent = found[0] + ": " + found[1].map(function (row) {
      return (row[1] ? row[1] + " " : "") + row[2];
    }).join("; ");
  }

  function draw(chart) {
    if (chart.chart) chart.chart.dispose();
    chart.chart = null;
    chart.at = undefined;
    chart.option = optionOf(chart.spec);
    (chart.figure || chart.box).hidden = !chart.option;
    if (!chart.option || !chart.box.clientWidth) return;
    chart.chart = echarts.init(chart.box, dark.matches ? "dark" : "light");
    chart.chart.setOption(chart.option);
    chart.chart.getZr().on("mousemove", function (event) { point(chart, event); });
    chart.chart.getZr().on("globalout", hideTip);
    // Parts of the library's own are not for the keyboard.
    chart.box.querySelectorAll("canvas").forEach(function (part) { part.setAttribute("aria-hidden", "true"); });
  }

  // Charts far from the window are drawn when the reader comes near.
  var near = "IntersectionObserver" in window && new IntersectionObserver(function (seen) {
    seen.forEach(function (entry) {
      var chart = drawn.filter(function (chart) { return chart.box === entry.target; })[0];
      if (entry.isIntersecting && chart && !chart.chart) draw(chart);
    });
  }, { rootMargin: "400px" });

  function add(box, spec) {
    var chart = { box: box, spec: spec, figure: box.closest("figure") };
    chart.option = optionOf(spec);
    drawn.push(chart);
    box.addEventListener("keydown", function (event) { key(chart, event); });
    box.addEventListener("blur", hideTip);
    if (near) near.observe(box); else draw(chart);
    return chart;
  }

  function redraw() {
    drawn.forEach(function (chart) {
      chart.option = optionOf(chart.spec);
      (chart.figure || chart.box).hidden = !chart.option;
      if (chart.chart) draw(chart);
    });
    redraws.forEach(function (what) { what(); });
  }

  specs.forEach(function (spec, place) {
    add(document.getElementById("chart-" + place), spec);
  });
  dark.addEventListener("change", redraw);
  var waiting;
  addEventListener("resize", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () {
      drawn.forEach(function (chart) { if (chart.chart) chart.chart.resize(); });
      scrollers();
      belowContents();
    }, 100);
  });
  addEventListener("beforeprint", function () { drawn.forEach(draw); });

  // Wide and long tables scroll; then the keyboard must reach them.
  function scrollers() {
    document.querySelectorAll(".table").forEach(function (box) {
      var scrolls = box.scrollWidth > box.clientWidth + 1 || box.scrollHeight > box.clientHeight + 1;
      if (scrolls) box.tabIndex = 0; else box.removeAttribute("tabindex");
    });
  }

  // The contents stay at the top, in as many lines as they need: headings must not scroll behind them.
  function belowContents() {
    var nav = document.querySelector("nav");
    document.documentElement.style.scrollPaddingTop = nav.offsetHeight + 8 + "px";
  }

  // Sections fold behind their headings. A narrow window starts with the results only.
  var open = { results: 1, findings: 1, axes: 1 };
  function unfold(section, is) {
    section.classList.toggle("folded", !is);
    section.querySelector("h2 button").setAttribute("aria-expanded", is);
    if (is) { scrollers(); }
  }
  document.querySelectorAll("main > section").forEach(function (section) {
    var head = section.querySelector("h2"), button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.textContent = "";
    head.appendChild(button);
    button.addEventListener("click", function () { unfold(section, section.classList.contains("folded")); });
    unfold(section, !section.classList.contains("fold") && (!narrow.matches || !!open[section.id]));
  });
  function goTo() {
    // Not decoded: names of sections need no escapes, and a lone `%` in a link would end this script.
    var target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "SECTION") { unfold(target, true); target.scrollIntoView(); }
  }
  addEventListener("hashchange", goTo);
  document.querySelectorAll("nav a").forEach(function (link) {
    link.addEventListener("click", function () {
      var target = document.getElementById(link.getAttribute("href").slice(1));
      if (target) unfold(target, true);
    });
  });
  belowContents();
  goTo();
  scrollers();

  return {
    element: element, add: add, draw: draw, drawn: drawn, dark: dark, shown: shown,
    // Hides the cells whose numbers are true in `cells`.
    hide: function (cells) {
      hidden = cells;
      document.querySelectorAll("[data-cell]").forEach(function (row) { row.hidden = !!hidden[row.dataset.cell]; });
      redraw();
    },
    isHidden: function (cell) { return !!hidden[cell]; },
    onRedraw: function (what) { redraws.push(what); }
  };
})();
