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
KINDS.forest = forest;
KINDS.stack = stack;

