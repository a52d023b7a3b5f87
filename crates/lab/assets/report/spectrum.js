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
KINDS.spectrum = spectrum;

