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
KINDS.series = series;

