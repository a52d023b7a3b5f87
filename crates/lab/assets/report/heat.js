const HEAT = { light: ["#F1F5F9", "#A9CCE6", "#4E95C5", "#0B5C93", "#062B4A"],
  dark: ["#1E2A36", "#1F4E74", "#2F86C0", "#7FC4F2", "#EAF6FF"] };

// A scale of colours from least to most, named beside the chart.
function shades(least, most, name, more) {
  return Object.assign({ type: "continuous", min: least, max: most, calculable: false, orient: "horizontal",
    left: "center", bottom: 0, itemWidth: 12, itemHeight: 160, text: [`${show(most)} ${name}`, show(least)],
    textStyle: { color: css("--soft"), fontSize: 11 }, inRange: { color: HEAT[dark() ? "dark" : "light"] } }, more);
}

// A matrix: { x, y: labels; values: rows of y, columns of x, null where nothing was measured; unit;
// x_name, y_name; outlined: [[x, y]] the plateau; marked: [[x, y]] the best }.
KINDS.heat = (figure) => {
  const cells = figure.values.flatMap((row, y) => row.map((value, x) => [x, y, value]));
  const there = cells.filter((cell) => finite(cell[2]));
  const values = there.map((cell) => cell[2]);
  const has = (list, x, y) => (list || []).some((place) => place[0] === x && place[1] === y);
  const series = [{ type: "heatmap", data: there.map(([x, y, value]) => ({ value: [x, y, value],
    itemStyle: has(figure.outlined, x, y) ? { borderColor: css("--ink"), borderWidth: 2.5 }
      : { borderColor: css("--page"), borderWidth: 1 } })),
    label: { show: true, fontSize: narrow() ? 10 : 12, textBorderColor: css("--page"), textBorderWidth: 2,
      color: css("--ink"), formatter: (at) => (has(figure.marked, at.value[0], at.value[1]) ? "★ " : "") + show(at.value[2]) },
    tooltip: { formatter: (at) => `${figure.x_name} ${html(figure.x[at.value[0]])}<br>${figure.y_name} ${html(figure.y[at.value[1]])}<br>${show(at.value[2])} ${figure.unit}` } }];
  const labels = (list, name, more) => axis(name, Object.assign({ type: "category", data: list,
    splitLine: { show: false }, axisLabel: { color: css("--ink"), interval: 0 } }, more));
  return frame({ series, visualMap: shades(Math.min(...values), Math.max(...values), figure.unit, {}),
    grid: { left: 12, right: 20, top: 44, bottom: 74, containLabel: true },
    xAxis: labels(figure.x, figure.x_name, { nameGap: 26 }),
    yAxis: Object.assign(labels(figure.y, figure.y_name), { nameLocation: "end", nameGap: 12,
      nameTextStyle: { color: css("--soft"), align: "left" } }) });
};
TABLES.heat = (figure) => [[`${figure.y_name} \\ ${figure.x_name}`, ...figure.x]].concat(
  figure.y.map((name, at) => [name, ...figure.values[at]]));

// How times were spread in each second: cells are [second's place, bin's place, % of it, requests].
KINDS.heat_time = (figure, choice) => {
  const run = figure.runs[choice || 0];
  const most = Math.max(...run.cells.map((cell) => cell[2]));
  const warm = run.seconds.filter((second) => second < run.warm).length;
  const series = [{ type: "heatmap", data: run.cells, itemStyle: { borderWidth: 0 },
    tooltip: { formatter: (at) => `second ${run.seconds[at.value[0]]}, up to ${show(run.ends[at.value[1]])} ms<br>${show(at.value[2])} % (${show(at.value[3])} requests)` },
    markLine: warm > 0 && warm < run.seconds.length ? { silent: true, symbol: "none", lineStyle: { color: css("--ink"), type: "dashed" },
      label: { formatter: "warm-up ends", color: css("--soft"), fontSize: 11 }, data: [{ xAxis: warm - 0.5 }] } : undefined }];
  return frame({ series, toolbox: { show: false }, visualMap: shades(0, most, "% of the second's requests", { dimension: 2 }),
    grid: { left: 12, right: 20, top: 40, bottom: 74, containLabel: true },
    xAxis: axis("second", { type: "category", data: run.seconds, splitLine: { show: false }, nameGap: 26,
      axisLabel: { color: css("--soft"), hideOverlap: true } }),
    yAxis: upright("up to, ms", { type: "category", data: run.ends.map(show), splitLine: { show: false },
      axisLabel: { color: css("--soft"), hideOverlap: true } }) });
};
TABLES.heat_time = (figure, choice) => {
  const run = figure.runs[choice || 0];
  return [["second", "up to ms", "% of the second", "requests"]].concat(
    run.cells.map((cell) => [run.seconds[cell[0]], run.ends[cell[1]], cell[2], cell[3]]));
};

