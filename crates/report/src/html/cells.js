// What depends on the cells of the matrix: the filter, and a figure against an axis.
(function () {
  var data = JSON.parse(document.getElementById("cells").textContent);
  if (!data) return;
  var element = report.element;

  function filter() {
    var box = document.getElementById("filter"), details = element("details", "", box);
    var summary = element("summary", "", details), left = data.axes.map(function () { return {}; });
    function count() {
      var shown = data.cells.filter(function (_, cell) { return !report.isHidden(cell); }).length;
      summary.textContent = shown === data.cells.length ? "Filter: all " + shown + " cells shown" :
        "Filter: " + shown + " of " + data.cells.length + " cells shown";
    }
    data.axes.forEach(function (axis, number) {
      var set = element("fieldset", "", details);
      element("legend", axis.name, set);
      axis.values.forEach(function (value, place) {
        var label = element("label", "", set), tick = element("input", "", label);
        tick.type = "checkbox";
        tick.checked = true;
        label.appendChild(document.createTextNode(" " + value));
        tick.addEventListener("change", function () {
          left[number][place] = !tick.checked;
          var hidden = {};
          data.cells.forEach(function (cell, index) {
            if (cell.at.some(function (at, axis) { return left[axis][at]; })) hidden[index] = true;
          });
          report.hide(hidden);
          count();
        });
      });
    });
    count();
  }

  function choice(label, names, chosen, parent, action) {
    var box = element("label", label + " ", parent), select = element("select", "", box);
    names.forEach(function (name, place) {
      var option = element("option", name, select);
      option.value = place;
    });
    select.value = chosen;
    select.addEventListener("change", action);
    return select;
  }

  // Whether a figure differs between cells.
  function varies(figure) {
    var values = data.cells.map(function (cell) { return cell.figures[figure] && cell.figures[figure][0]; });
    values = values.filter(function (value) { return value !== null; });
    return values.some(function (value) { return value !== values[0]; });
  }

  function firstFigure() {
    var all = data.figures.map(function (_, place) { return place; }).filter(varies);
    var tail = all.filter(function (place) { return /p99$/.test(data.figures[place].name); });
    return tail.concat(all, [0])[0];
  }

  function explore() {
    var place = document.getElementById("explore"), bar = element("p", "", place);
    bar.className = "choices";
    var numeric = data.axes.map(function (axis, number) { return axis.numbers ? number : -1; })
      .filter(function (number) { return number >= 0; });
    var figures = data.figures.map(function (one) { return one.name; });
    var figure = choice("Figure", figures, firstFigure(), bar, update);
    var axis = choice("against", data.axes.map(function (one) { return one.name; }),
                      numeric.length ? numeric[0] : 0, bar, update);
    var frame = element("figure", "", place), caption = element("figcaption", "", frame);
    frame.className = "wide";
    var title = element("span", "", caption), keys = element("p", "", frame), box = element("div", "", frame);
    keys.className = "key";
    box.className = "plot";
    box.tabIndex = 0;
    box.setAttribute("role", "img");
    box.style.height = "340px";
    var colours = ["#3a7bd5", "#e08a2e", "#2e9e79", "#b562c4", "#c94f5d", "#8a7f3c", "#4aa8c4", "#7d8590"];

    function lines() {
      var x = data.axes[axis.value], found = [], byName = {};
      data.cells.forEach(function (cell, index) {
        var value = cell.figures[figure.value], at = cell.at[axis.value];
        if (!value || at === null || report.isHidden(index)) return;
        var name = cell.at.map(function (place, number) {
          return String(number) === axis.value || place === null ? null : data.axes[number].values[place];
        }).filter(function (part) { return part !== null; }).join(" · ");
        if (!byName[" " + name]) found.push(byName[" " + name] = { name: name, points: [] });
        byName[" " + name].points.push([x.numbers ? x.numbers[at] : at].concat(value));
      });
      found.forEach(function (line) { line.points.sort(function (a, b) { return a[0] - b[0]; }); });
      return found;
    }

    // The greatest number of later lines with a point at the same place as one of this line, which would
    // hide it. It is drawn larger, as a ring around theirs.
    function covering(all, number, span) {
      return all[number].points.reduce(function (most, point) {
        var count = all.slice(number + 1).filter(function (other) {
          return other.points.some(function (its) {
            return its[0] === point[0] && Math.abs(its[1] - point[1]) <= span / 50;
          });
        }).length;
        return Math.max(most, count);
      }, 0);
    }

    function spec() {
      var x = data.axes[axis.value], what = data.figures[figure.value], all = lines(), series = [];
      var values = [];
      all.forEach(function (line) {
        line.points.forEach(function (point) { values.push(point[1], point[2], point[3]); });
      });
      var span = Math.max.apply(null, values) - Math.min.apply(null, values);
      all.forEach(function (line, number) {
        var colour = colours[number % colours.length], whiskers = [];
        line.points.forEach(function (point) {
          if (point[2] !== point[3]) whiskers.push([point[0], point[2]], [point[0], point[3]], [point[0], "-"]);
        });
        series.push({
          type: "line", name: line.name, silent: true, symbol: "circle",
          symbolSize: 6 + 4 * Math.min(3, covering(all, number, span)),
          data: line.points.map(function (point) { return [point[0], point[1]]; }),
          ranges: line.points.map(function (point) { return [point[2], point[3]]; }),
          lineStyle: { width: x.numbers ? 1.8 : 0, color: colour }, itemStyle: { color: colour }
        });
        series.push({ type: "line", name: line.name, whisker: true, silent: true, showSymbol: false,
                      data: whiskers, lineStyle: { width: 1.4, color: colour }, itemStyle: { color: colour } });
      });
      var places = x.numbers ? x.numbers.filter(function (value) { return value > 0; }) : [];
      var wide = places.length > 2 && places.length === x.numbers.length &&
        Math.max.apply(null, places) / Math.min.apply(null, places) >= 50;
      var tall = values.length && Math.min.apply(null, values) > 0 &&
        Math.max.apply(null, values) / Math.min.apply(null, values) > 50;
      var name = x.unit ? x.name + ", " + x.unit : x.name;
      var xAxis = x.numbers ? { type: wide ? "log" : "value", scale: true } :
        { type: "category", data: x.values, axisTick: { show: false }, axisLabel: { interval: 0 } };
      if (wide) { xAxis.min = Math.min.apply(null, places); xAxis.max = Math.max.apply(null, places); }
      Object.assign(xAxis, { name: name, nameLocation: "middle", nameGap: 26 });
      return {
        lines: true, explored: true, x: x.unit, y: what.unit, cells: [],
        title: what.name + " against " + x.name, values: what.unit, count: all.length,
        option: {
          animation: false, series: series, xAxis: xAxis, yAxis: { type: tall ? "log" : "value", splitNumber: 4 },
          grid: { left: 6, right: 30, top: 14, bottom: 24, containLabel: true }
        },
        names: all.map(function (line, number) { return [line.name, colours[number % colours.length]]; })
      };
    }

    var chart = null;
    function update() {
      var now = spec();
      title.textContent = now.title;
      if (now.values) element("small", now.values, title);
      box.setAttribute("aria-label", now.title + "; arrow keys read the values");
      keys.textContent = "";
      now.names.forEach(function (one) {
        if (!one[0]) return;
        var entry = element("span", "", keys);
        element("i", "", entry).style.background = one[1];
        entry.appendChild(document.createTextNode(one[0]));
      });
      if (!chart) {
        chart = report.add(box, now);
        report.tools(chart, caption);
      } else {
        chart.spec = now;
        report.draw(chart);
      }
    }
    update();
    report.onRedraw(update);
  }

  filter();
  explore();
})();
