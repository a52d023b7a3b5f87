// Bars of a histogram: bins are [upper end in ms, requests], each wider than the one before by the same factor.
const shares = (figure) => {
  const all = figure.bins.reduce((sum, bin) => sum + bin[1], 0);
  return figure.bins.map((bin) => 100 * bin[1] / all);
};
KINDS.histogram = (figure) => {
  const soft = css("--soft"), ends = figure.bins.map((bin) => show(bin[0]));
  const bars = { name: "answers", type: "bar", barCategoryGap: "6%", color: tone(0), data: shares(figure),
    tooltip: { formatter: (at) => `up to ${ends[at.dataIndex]} ms: ${show(at.value)} %, ${show(figure.bins[at.dataIndex][1])} answers` } };
  return frame({ series: [bars],
    xAxis: axis("ms, up to", { type: "category", data: ends, splitLine: { show: false },
      axisLabel: { color: soft, hideOverlap: true } }),
    yAxis: upright("% of the answers", { min: 0 }) });
};
TABLES.histogram = (figure) => [["up to ms", "answers", "%"]].concat(
  shares(figure).map((share, at) => [...figure.bins[at], share]));

