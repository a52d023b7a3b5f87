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
KINDS.curves = curves;

