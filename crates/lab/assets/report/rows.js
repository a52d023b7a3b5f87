// Dots with intervals, one row for each: rows are [label, middle, low, high, arm]. With `zero` the
// distance from zero is drawn as a bar.
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
  const series = [];
  if (figure.zero) {
    series.push({ type: "bar", silent: true, barMaxWidth: 14,
      data: rows.map((row) => ({ value: row[1], itemStyle: { color: of(row), opacity: 0.28 } })) });
  }
  series.push(
    { type: "custom", renderItem: whisker, silent: true, encode: { x: [0, 1], y: 2 },
      data: rows.map((row, at) => ({ value: [row[2], row[3], at], itemStyle: { color: of(row) } })) },
    { type: "scatter", symbolSize: 10, encode: { x: 0, y: 1 },
      data: rows.map((row, at) => ({ value: [row[1], at], symbol: mark(data.arms[row[4]]),
        itemStyle: { color: of(row) } })),
      tooltip: { formatter: (at) => {
        const row = rows[at.dataIndex];
        return `${html(row[0])}<br>${show(row[1])} (${show(row[2])} to ${show(row[3])})`;
      } },
      markLine: { silent: true, symbol: "none", label: { color: css("--soft"), fontSize: 11 },
        lineStyle: { color: css("--soft"), type: "dashed" }, data: [
          ...(finite(figure.mark) ? [{ xAxis: figure.mark, label: { show: false } }] : []),
          ...(finite(figure.ceiling) ? [{ xAxis: figure.ceiling, label: { formatter: "client's ceiling" } }] : [])] },
      markArea: figure.floor ? { silent: true, itemStyle: { color: css("--line"), opacity: 0.45 },
        data: [[{ xAxis: figure.floor[0] }, { xAxis: figure.floor[1] }]] } : undefined });
  const ends = rows.flatMap((row) => [row[2], row[3]]).concat(figure.floor || [], figure.ceiling || []);
  const least = Math.min(...ends), most = Math.max(...ends), free = (most - least) * 0.06 || 0.01;
  return frame({ series, grid: { left: margin(rows.map((row) => row[0])), right: 28, top: 34, bottom: 48 },
    xAxis: axis(figure.x, { scale: true, min: figure.zero ? 0 : least - free, max: most + free, nameGap: 26,
      axisLabel: { color: css("--soft"), hideOverlap: true, formatter: show, showMinLabel: !!figure.zero,
        showMaxLabel: false } }),
    yAxis: names(rows.map((row) => row[0])) });
}
KINDS.forest = forest;
TABLES.forest = (figure) => [["arm", figure.x, "low", "high"]].concat(
  figure.rows_data.map((row) => row.slice(0, 4)));

// Patterns of parts: none, two diagonals, dots, and upright lines. Their number and that of the tones
// have no common divisor, so that 40 parts differ.
const STROKE = { color: "rgba(0, 0, 0, 0.45)", dashArrayX: [1, 0] };
const PATTERNS = [{ symbol: "none" },
  { ...STROKE, dashArrayY: [1.5, 4], rotation: -Math.PI / 4 },
  { ...STROKE, symbol: "circle", dashArrayX: [[5, 5], [0, 5, 5, 0]], dashArrayY: [4, 1], symbolSize: 0.6 },
  { ...STROKE, dashArrayY: [1.5, 4], rotation: Math.PI / 4 },
  { ...STROKE, dashArrayY: [1.5, 4], rotation: Math.PI / 2 }];

// Stacked bars from zero: parts are { name, values }, one value for each of the labels.
function stack(figure) {
  const series = figure.parts.map((part, at) => ({ name: part.name, type: "bar", stack: "all", data: part.values,
    color: tone(at), barMaxWidth: 26, itemStyle: { borderColor: css("--page"), borderWidth: 0.5 },
    tooltip: { formatter: (p) => `${html(figure.labels[p.dataIndex])}<br>${html(part.name)}: ${show(p.value)} ${figure.x}` } }));
  const key = legend(figure.parts.map((part) => part.name));
  const decal = { show: series.length > 1, decals: PATTERNS };
  return frame({ series, legend: key.shown, aria: { enabled: true, label: { enabled: false }, decal },
    grid: { left: margin(figure.labels), right: 28, top: 34, bottom: 48 + key.height },
    xAxis: axis(figure.x, { min: 0, nameGap: 26 }), yAxis: names(figure.labels) });
}
KINDS.stack = stack;
TABLES.stack = (figure) => [["", ...figure.parts.map((part) => part.name)]].concat(
  figure.labels.map((name, at) => [name, ...figure.parts.map((part) => part.values[at])]));

// Bars from zero beside each other: { labels, parts: [{ name, values }], x }.
KINDS.bars = (figure) => {
  const options = stack(figure);
  options.series.forEach((one) => { delete one.stack; one.barMaxWidth = 14; });
  return options;
};
TABLES.bars = TABLES.stack;

