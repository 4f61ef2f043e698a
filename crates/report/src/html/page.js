"use strict";
(function () {
  var specs = JSON.parse(document.getElementById("charts").textContent);
  var dark = matchMedia("(prefers-color-scheme: dark)");
  var drawn = [];

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

  var tip = document.createElement("div");
  tip.id = "tip";
  document.body.appendChild(tip);

  function shown(value) {
    if (value === null || value === undefined || isNaN(value)) return "–";
    var size = Math.abs(value);
    return size >= 100 ? value.toFixed(0) : size >= 10 ? value.toFixed(1) :
      size >= 0.1 || size === 0 ? value.toFixed(2) : value.toPrecision(2);
  }

  // Text only, never markup: names come from files.
  function fill(title, rows) {
    tip.textContent = "";
    var head = document.createElement("b");
    head.textContent = title;
    tip.appendChild(head);
    rows.forEach(function (row) {
      var line = document.createElement("div"), mark = document.createElement("i");
      mark.style.background = row[0];
      line.appendChild(mark);
      line.appendChild(document.createTextNode(row[1] + "  " + row[2]));
      tip.appendChild(line);
    });
  }

  function rowsOfBars(spec, place) {
    return spec.option.series.map(function (series) {
      var item = series.data[place];
      return [item.itemStyle.color, series.name, shown(item.value) + " " + spec.y];
    });
  }

  // The last point at or before the pointer.
  function rowsOfLines(spec, x) {
    return spec.option.series.map(function (series) {
      var low = 0, high = series.data.length;
      while (low < high) {
        var middle = (low + high) >> 1;
        if (series.data[middle][0] <= x) low = middle + 1; else high = middle;
      }
      return [series.itemStyle.color, series.name,
              low ? shown(series.data[low - 1][1]) + " " + spec.y : "–"];
    });
  }

  function point(chart, spec, event) {
    var at = [event.offsetX, event.offsetY];
    if (!chart.containPixel("grid", at)) { tip.style.display = "none"; return; }
    var x = chart.convertFromPixel("grid", at)[0];
    if (spec.lines) {
      fill((spec.option.xAxis.type === "log" ? "within " : "at ") + shown(x) + " " + spec.x,
           rowsOfLines(spec, x));
    } else {
      var place = Math.max(0, Math.min(Math.round(x), spec.option.xAxis.data.length - 1));
      fill(spec.option.xAxis.data[place], rowsOfBars(spec, place));
    }
    tip.style.display = "block";
    var mouse = event.event, left = mouse.pageX + 14;
    if (left + tip.offsetWidth > document.documentElement.clientWidth - 8) left = mouse.pageX - tip.offsetWidth - 14;
    tip.style.left = left + "px";
    tip.style.top = mouse.pageY + 14 + "px";
  }

  function draw() {
    drawn.forEach(function (chart) { chart.dispose(); });
    drawn = specs.map(function (spec, place) {
      var chart = echarts.init(document.getElementById("chart-" + place), dark.matches ? "dark" : "light");
      chart.setOption(spec.option);
      chart.getZr().on("mousemove", function (event) { point(chart, spec, event); });
      chart.getZr().on("globalout", function () { tip.style.display = "none"; });
      return chart;
    });
  }

  draw();
  dark.addEventListener("change", draw);
  var waiting;
  addEventListener("resize", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () { drawn.forEach(function (chart) { chart.resize(); }); }, 100);
  });
})();
