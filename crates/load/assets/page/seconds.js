// One run second by second in panels above each other, all on the same seconds; the warm-up is shaded.
const PANELS = [
  { name: "requests per second", lines: [["offered", "offered"], ["good", "good"], ["failed", "errors"]] },
  { name: "failures per second, by kind", lines: [], kinds: true },
  { name: "ms", lines: [["median", "p50"], ["99th percentile", "p99"], ["longest", "max"]] },
  { name: "requests in flight", lines: [["in flight", "in_flight"]] },
  { name: "processors busy", lines: [["server", "server_cpu"], ["load", "client_cpu"], ["steal", "steal"]] },
];
// A line's tone and dash; offered is what good should be: dashed below it.
const STYLES = { offered: ["--soft", "dashed"], good: [0, "solid"], failed: [1, [2, 3]], median: [2, "solid"],
  "99th percentile": [3, "dashed"], longest: [5, [2, 3]], "in flight": [6, "solid"], server: [0, "solid"], load: [1, "dashed"], steal: [4, [2, 3]] };

KINDS.series = (figure, choice) => {
  const run = figure.runs[choice || 0], xs = run.seconds;
  const panels = PANELS.map((panel) => ({ name: panel.name, lines: panel.kinds
    ? run.kinds.filter((kind) => kind.values.some((count) => count > 0)).map((kind) => [kind.name, kind.values]) : panel.lines.filter(([, from]) => run[from]).map(([name, from]) => [name, run[from]]) }))
    .map((panel) => ({ name: panel.name, lines: panel.lines.filter(([, values]) => values.some(finite)) }))
    .filter((panel) => panel.lines.length);
  const series = [], grid = [], xAxis = [], yAxis = [];
  const height = (100 - 9) / panels.length;
  panels.forEach((panel, at) => {
    const last = at === panels.length - 1;
    grid.push({ left: 52, right: 28, top: `${4.5 + at * height}%`, height: `${height * 0.62}%` });
    xAxis.push(axis(last ? "second" : "", { gridIndex: at, min: 0, max: xs[xs.length - 1] + 1, minInterval: 1, nameGap: 24 }));
    yAxis.push(upright(`${panel.name}: ${panel.lines.map((line) => line[0]).join(", ")}`,
      { gridIndex: at, min: 0, splitNumber: 3 }));
    panel.lines.forEach(([name, values], order) => {
      const [tint, type] = STYLES[name] || [order + 1, DASHES[order % DASHES.length]];
      const line = { name, type: "line", xAxisIndex: at, yAxisIndex: at, symbol: "circle", symbolSize: 4,
        color: typeof tint === "string" ? css(tint) : (dark() ? DARK : LIGHT)[tint % LIGHT.length],
        data: values.map((value, second) => [xs[second] + 0.5, value]), lineStyle: { type, width: 2 } };
      if (order === 0 && run.warm > 0) {
        line.markArea = { silent: true, itemStyle: { color: css("--line"), opacity: 0.5 },
          label: { show: at === 0, color: css("--soft"), position: "insideBottom", fontSize: 11 },
          data: [[{ name: "warm-up", xAxis: 0 }, { xAxis: run.warm }]] };
      }
      series.push(line);
    });
  });
  const key = legend(series.map((one) => one.name));
  return frame({ series, grid, xAxis, yAxis, legend: key.shown, axisPointer: { link: [{ xAxisIndex: "all" }] },
    tooltip: Object.assign(frame({}).tooltip, { trigger: "axis", valueFormatter: show }) });
};
TABLES.series = (figure, choice) => {
  const run = figure.runs[choice || 0];
  const columns = ["offered", "good", "errors", "p50", "p99", "max", "in_flight", "server_cpu", "client_cpu", "steal"].filter((name) => run[name]);
  return [["second", ...columns, ...run.kinds.map((kind) => kind.name)]].concat(run.seconds.map((second, at) =>
    [second, ...columns.map((name) => run[name][at]), ...run.kinds.map((kind) => kind.values[at])]));
};

