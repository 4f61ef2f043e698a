// Buttons that save charts as pictures, and charts and tables as CSV.
(function () {
  var element = report.element;

  function save(name, blob) {
    var link = element("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(function () { URL.revokeObjectURL(link.href); }, 10000);
  }

  function slug(text) {
    return text.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "chart";
  }

  // Spreadsheets run text that starts with these characters, or with their full-width forms, as a formula.
  function field(value) {
    if (value === null || value === undefined) return "";
    var text = String(value);
    if (typeof value !== "number" && /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/.test(text) && isNaN(Number(text))) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  }

  function csv(name, rows) {
    var text = rows.map(function (row) { return row.map(field).join(","); }).join("\r\n") + "\r\n";
    save(name + ".csv", new Blob([text], { type: "text/csv;charset=utf-8" }));
  }

  // The values of a chart as shown, in rows; the first one is the head.
  function valuesOf(chart) {
    var spec = chart.spec, option = chart.option, series = option.series.filter(function (s) { return !s.whisker; });
    var unit = function (name, unit) { return unit ? name + " [" + unit + "]" : name; };
    if (!spec.lines) {
      var head = [""].concat(series.map(function (one) { return unit(one.name, spec.y); }));
      return [head].concat(option.xAxis.data.map(function (name, place) {
        return [name].concat(series.map(function (one) { return one.data[place].value; }));
      }));
    }
    var rows = [["line", unit(option.xAxis.name || "x", ""), unit("value", spec.y)]];
    var ranges = series.some(function (one) { return one.ranges; });
    if (ranges) rows[0].push("min", "max");
    series.forEach(function (one) {
      one.data.forEach(function (item, place) {
        var x = option.xAxis.type === "category" ? option.xAxis.data[item[0]] : item[0];
        rows.push([one.name, x, item[1]].concat(ranges ? one.ranges[place] : []));
      });
    });
    return rows;
  }

  // A picture with the title and the colours' names, which are text of the page.
  function png(chart) {
    if (!chart.chart) report.draw(chart);
    var scale = 2, plot = chart.chart.getRenderedCanvas({ pixelRatio: scale });
    var style = getComputedStyle(document.documentElement);
    var colour = function (name) { return style.getPropertyValue(name).trim(); };
    var keys = [];
    if (chart.spec.lines) {
      chart.option.series.forEach(function (one) {
        if (one.name && !one.whisker) keys.push([one.name, one.itemStyle.color]);
      });
    }
    var head = 22, row = 16, top = head + keys.length * row + 6;
    var canvas = element("canvas"), to = canvas.getContext("2d");
    canvas.width = plot.width;
    canvas.height = plot.height + top * scale;
    to.fillStyle = colour("--bg");
    to.fillRect(0, 0, canvas.width, canvas.height);
    to.drawImage(plot, 0, top * scale);
    to.scale(scale, scale);
    to.fillStyle = colour("--fg");
    to.font = "600 13px system-ui, sans-serif";
    to.fillText(chart.spec.title + (chart.spec.values ? " (" + chart.spec.values + ")" : ""), 6, 16);
    to.font = "11px system-ui, sans-serif";
    keys.forEach(function (key, place) {
      to.fillStyle = key[1];
      to.fillRect(6, head + place * row + 2, 10, 10);
      to.fillStyle = colour("--fg");
      to.fillText(key[0], 22, head + place * row + 11);
    });
    canvas.toBlob(function (blob) { save(slug(chart.spec.title) + ".png", blob); });
  }

  function table(rows, parent) {
    var box = element("div", "", parent), made = element("table", "", box);
    box.className = "table values";
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Values of the chart");
    rows.slice(0, 2000).forEach(function (row, place) {
      var line = element("tr", "", made);
      row.forEach(function (value) {
        var text = typeof value === "number" ? report.shown(value) : value;
        var cell = element(place || !text ? "td" : "th", text === null ? "–" : text, line);
        if (typeof value === "number") cell.className = "n";
      });
    });
    return box;
  }

  function button(text, label, parent, action) {
    var made = element("button", text, parent);
    made.type = "button";
    made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    return made;
  }

  report.tools = function (chart, caption) {
    var box = element("span", "", caption), values = null;
    box.className = "tools";
    var title = function () { return chart.spec.title; };
    var show = button("table", "table of " + title(), box, function () {
      if (values) { values.remove(); values = null; } else { values = table(valuesOf(chart), chart.figure); }
      show.setAttribute("aria-expanded", !!values);
    });
    show.setAttribute("aria-expanded", "false");
    button("CSV", "CSV of " + title(), box, function () { csv(slug(title()), valuesOf(chart)); });
    button("PNG", "PNG of " + title(), box, function () { png(chart); });
  };

  report.drawn.forEach(function (chart) {
    report.tools(chart, chart.figure.querySelector("figcaption"));
  });

  document.querySelectorAll(".table > table").forEach(function (made) {
    var section = made.closest("section"), run = made.closest("details.run");
    if (!section || run || made.rows.length < 2) return;
    var name = slug(document.title.split(" · ")[0] + "-" + section.id);
    var box = element("p");
    box.className = "tools";
    var what = section.querySelector("h2").textContent;
    button("CSV", "CSV of the table, " + what, box, function () {
      var rows = Array.prototype.filter.call(made.rows, function (row) { return !row.hidden; });
      csv(name, rows.map(function (row) {
        return Array.prototype.map.call(row.cells, function (cell) {
          // Each part of a cell is text of its own.
          var parts = Array.prototype.map.call(cell.childNodes, function (part) { return part.textContent; });
          return parts.filter(function (part) { return part; }).join(" ").replace(/^−(?=\d)/, "-");
        });
      }));
    });
    made.parentNode.parentNode.insertBefore(box, made.parentNode.nextSibling);
  });
})();
