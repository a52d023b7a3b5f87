"use strict";
// Draws the figures of a report from the JSON beside it. One colour, dash and mark for each arm in
// all figures; the baseline's second run has the baseline's colour, dotted.
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#7F7F7F", "#8E6BBF",
  "#5E8C31", "#A0522D", "#008B8B", "#C71585"];
const MARKS = ["circle", "rect", "triangle", "diamond", "arrow", "roundRect"];
const DASHES = ["solid", "dashed", [2, 3], [8, 3, 2, 3]];
const charts = new Map();
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = () => document.body.clientWidth < 700;
const colour = (arm) => COLOURS[arm.colour % COLOURS.length];
const mark = (arm) => MARKS[arm.colour % MARKS.length];
const dash = (arm) => arm.again ? "dotted" : DASHES[Math.floor(arm.colour / 4) % DASHES.length];
const show = (x) => {
  if (x === null || x === undefined) return "";
  const size = Math.abs(x);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  return x.toLocaleString("en", { maximumFractionDigits: digits });
};

function frame(extra) {
  const ink = css("--ink"), soft = css("--soft"), line = css("--line");
  const base = {
    animation: false, backgroundColor: "transparent", textStyle: { color: ink, fontSize: 13 },
    grid: { left: 12, right: narrow() ? 16 : 28, top: 44, bottom: 56, containLabel: true },
    toolbox: { right: 4, top: 0, feature: { dataZoom: { title: { zoom: "zoom", back: "back" } },
      restore: { title: "restore" }, saveAsImage: { title: "save", type: "svg", name: data.name } },
      iconStyle: { borderColor: soft } },
    legend: { bottom: 0, type: "scroll", textStyle: { color: ink }, pageTextStyle: { color: ink },
      pageIconColor: ink },
    tooltip: { trigger: "item", confine: true, backgroundColor: css("--panel"), borderColor: line,
      textStyle: { color: ink } },
  };
  return Object.assign(base, extra);
}

function axis(name, extra) {
  const soft = css("--soft"), line = css("--line");
  return Object.assign({ type: "value", name, nameLocation: "middle", nameGap: 30,
    nameTextStyle: { color: soft }, axisLabel: { color: soft, formatter: show, hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: line } }, splitLine: { lineStyle: { color: line, opacity: 0.6 } } },
  extra || {});
}
// Labels of a vertical axis stand above it: beside it they would need room that phones lack.
const upright = (name, extra) => axis(name, Object.assign({ nameLocation: "end", nameGap: 12,
  nameTextStyle: { color: css("--soft"), align: "left", padding: [0, 0, 0, -8] } }, extra || {}));

function bar(params, api) {
  const at = api.value(0), low = api.coord([at, api.value(1)]), high = api.coord([at, api.value(2)]);
  const style = { stroke: api.visual("color"), lineWidth: 1.5, fill: null };
  const across = (y) => ({ type: "line", shape: { x1: low[0] - 4, x2: low[0] + 4, y1: y, y2: y }, style });
  return { type: "group", children: [{ type: "line",
    shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] }, style }, across(low[1]), across(high[1])] };
}

// A line for each arm: points are [x, median, low, high].
function curves(figure) {
  const series = [];
  for (const line of figure.lines) {
    const arm = data.arms[line.arm];
    series.push({ name: arm.name, type: "line", data: line.points.map((p) => [p[0], p[1]]),
      color: colour(arm), symbol: mark(arm), symbolSize: 7, connectNulls: false,
      lineStyle: { type: dash(arm), width: 2 },
      tooltip: { formatter: (at) => {
        const p = line.points[at.dataIndex];
        return `${arm.name}<br>${figure.x}: ${show(p[0])}<br>${figure.y}: ${show(p[1])} (${show(p[2])} to ${show(p[3])})`;
      } } });
    series.push({ name: arm.name, type: "custom", renderItem: bar, silent: true, color: colour(arm),
      data: line.points.map((p) => [p[0], p[2], p[3]]), encode: { x: 0, y: [1, 2] }, z: 1 });
  }
  if (figure.guide) {
    const most = Math.max(...figure.lines.flatMap((line) => line.points.map((p) => p[0])));
    series.push({ name: "all answered", type: "line", data: [[0, 0], [most, most]], symbol: "none", silent: true,
      color: css("--soft"), lineStyle: { type: "dotted", width: 1 } });
  }
  return frame({ series,
    xAxis: axis(figure.x, { type: figure.log_x ? "log" : "value", scale: !figure.guide }),
    yAxis: upright(figure.y, { type: figure.log_y ? "log" : "value" }) });
}

// Dots with intervals, one row for each: rows are [label, middle, low, high, arm].
function forest(figure) {
  const rows = figure.rows_data;
  const whisker = (params, api) => {
    const y = api.coord([0, api.value(2)])[1];
    const low = api.coord([api.value(0), 0])[0], high = api.coord([api.value(1), 0])[0];
    const style = { stroke: api.visual("color"), lineWidth: 2 };
    const end = (x) => ({ type: "line", shape: { x1: x, x2: x, y1: y - 5, y2: y + 5 }, style });
    return { type: "group", children: [{ type: "line", shape: { x1: low, x2: high, y1: y, y2: y }, style },
      end(low), end(high)] };
  };
  const of = (row) => colour(data.arms[row[4]]);
  const series = [
    { type: "custom", renderItem: whisker, silent: true, encode: { x: [0, 1], y: 2 },
      data: rows.map((row, at) => ({ value: [row[2], row[3], at], itemStyle: { color: of(row) } })) },
    { type: "scatter", symbolSize: 10, encode: { x: 0, y: 1 },
      data: rows.map((row, at) => ({ value: [row[1], at], symbol: mark(data.arms[row[4]]),
        itemStyle: { color: of(row) } })),
      tooltip: { formatter: (at) => {
        const row = rows[at.dataIndex];
        return `${row[0]}<br>${show(row[1])} (${show(row[2])} to ${show(row[3])})`;
      } },
      markLine: figure.mark === null || figure.mark === undefined ? undefined : { silent: true, symbol: "none",
        label: { show: false }, lineStyle: { color: css("--soft"), type: "dashed" }, data: [{ xAxis: figure.mark }] },
      markArea: figure.floor ? { silent: true, itemStyle: { color: css("--line"), opacity: 0.45 },
        data: [[{ xAxis: figure.floor[0] }, { xAxis: figure.floor[1] }]] } : undefined },
  ];
  const ends = rows.flatMap((row) => [row[2], row[3]]).concat(figure.floor || []);
  const least = Math.min(...ends), most = Math.max(...ends), room = (most - least) * 0.06 || 0.01;
  return frame({ series, legend: undefined, grid: { left: 12, right: 28, top: 40, bottom: 40, containLabel: true },
    xAxis: axis(figure.x, { scale: true, min: figure.zero ? 0 : least - room, max: most + room,
      axisLabel: { color: css("--soft"), hideOverlap: true, formatter: show, showMinLabel: !!figure.zero, showMaxLabel: false } }),
    yAxis: axis("", { type: "category", inverse: true, data: rows.map((row) => row[0]), splitLine: { show: false },
      axisLabel: { color: css("--ink"), width: narrow() ? 110 : 240, overflow: "truncate", interval: 0 } }) });
}

// Stacked bars: parts are { name, values }, one value for each row.
function stack(figure) {
  const tones = ["#0072B2", "#E69F00", "#009E73", "#CC79A7"];
  const series = figure.parts.map((part, at) => ({ name: part.name, type: "bar", stack: "all", data: part.values,
    color: tones[at % tones.length], barMaxWidth: 26,
    tooltip: { formatter: (p) => `${figure.labels[p.dataIndex]}<br>${part.name}: ${show(p.value)} ${figure.x}` } }));
  return frame({ series, grid: { left: 12, right: 28, top: 40, bottom: 70, containLabel: true }, xAxis: axis(figure.x),
    yAxis: axis("", { type: "category", inverse: true, data: figure.labels, splitLine: { show: false },
      axisLabel: { color: css("--ink"), width: narrow() ? 110 : 240, overflow: "truncate", interval: 0 } }) });
}

// Second by second: the warm-up is shaded.
function series(figure, choice) {
  const run = figure.runs[choice || 0];
  const line = (name, values, tone, type, axisAt) => ({ name, type: "line", data: values, color: tone, symbol: "none",
    lineStyle: { type, width: 2 }, xAxisIndex: axisAt, yAxisIndex: axisAt });
  const xs = run.seconds;
  const pair = (values) => values.map((value, at) => [xs[at], value]);
  const all = [line("offered per second", pair(run.offered), "#7F7F7F", "dashed", 0),
    line("good per second", pair(run.good), "#0072B2", "solid", 0),
    line("failed per second", pair(run.errors), "#D55E00", [2, 3], 0),
    line("p99, ms", pair(run.p99), "#009E73", "solid", 1)];
  if (run.warm > 0) {
    all[1].markArea = { silent: true, itemStyle: { color: css("--line"), opacity: 0.5 },
      label: { color: css("--soft"), position: "insideBottom" }, data: [[{ name: "warm-up", xAxis: 0 }, { xAxis: run.warm }]] };
  }
  const half = { left: 12, right: 28, containLabel: true };
  const axisX = (at) => axis(at ? "second" : "", { gridIndex: at, min: 0, max: xs[xs.length - 1] + 1, minInterval: 1 });
  return frame({ series: all, tooltip: Object.assign(frame({}).tooltip, { trigger: "axis", valueFormatter: show }),
    grid: [Object.assign({ top: 44, height: "36%" }, half), Object.assign({ top: "62%", bottom: 62 }, half)],
    xAxis: [axisX(0), axisX(1)],
    yAxis: [upright("requests per second", { gridIndex: 0 }), upright("p99, ms", { gridIndex: 1, splitNumber: 3 })] });
}

// Time against 1/(1 - quantile), as HdrHistogram draws it.
function spectrum(figure) {
  const all = figure.lines.map((line) => {
    const arm = data.arms[line.arm];
    return { name: arm.name, type: "line", data: line.points.map(([q, ms]) => [1 / (1 - q), ms]), color: colour(arm),
      symbol: mark(arm), symbolSize: 5, lineStyle: { type: dash(arm), width: 2 },
      tooltip: { formatter: (at) => `${arm.name}<br>p${+(100 * line.points[at.dataIndex][0]).toFixed(4)}: ${show(at.value[1])} ms` } };
  });
  const label = (x) => x < 1.5 ? "p0" : `p${+(100 * (1 - 1 / x)).toFixed(4)}`;
  return frame({ series: all, yAxis: upright("ms", { type: "log" }),
    xAxis: axis("percentile", { type: "log", min: 1, axisLabel: { color: css("--soft"), formatter: label, hideOverlap: true } }) });
}

const KINDS = { curves, forest, stack, series, spectrum };
function draw(id, choice) {
  const figure = data.figures[id], place = document.getElementById("c-" + id);
  let chart = charts.get(id);
  if (!chart) { chart = echarts.init(place, null, { renderer: "svg" }); charts.set(id, chart); }
  chart.setOption(KINDS[figure.kind](figure, choice), true);
}
const chosen = (id) => { const at = document.querySelector(`select[data-for="${id}"]`); return at ? +at.value : 0; };
const all = () => Object.keys(data.figures).forEach((id) => draw(id, chosen(id)));
document.querySelectorAll("select[data-for]").forEach((at) =>
  at.addEventListener("change", () => draw(at.dataset.for, +at.value)));
window.addEventListener("resize", () => { charts.forEach((chart) => chart.resize()); all(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
window.addEventListener("beforeprint", () => { charts.forEach((chart) => chart.resize()); all(); });
all();
