function bar(params, api) {
  const at = api.value(0), low = api.coord([at, api.value(1)]), high = api.coord([at, api.value(2)]);
  const style = { stroke: api.visual("color"), lineWidth: 1.5, fill: null };
  const across = (y) => ({ type: "line", shape: { x1: low[0] - 4, x2: low[0] + 4, y1: y, y2: y }, style });
  return { type: "group", children: [{ type: "line",
    shape: { x1: low[0], y1: low[1], x2: high[0], y2: high[1] }, style }, across(low[1]), across(high[1])] };
}

// Names of lines at their ends, where there is room beside them: { arm, at: the last point }.
const ENDS_MAX = 8;
const endRoom = (lines) => narrow() || lines.length > ENDS_MAX ? 16
  : 22 + Math.max(...lines.map((line) => wide(data.arms[line.arm].name, 11)));
const ends = (lines) => narrow() || lines.length > ENDS_MAX ? []
  : lines.filter((line) => line.points.length).map((line) => ({ arm: data.arms[line.arm], at: line.points[line.points.length - 1] }));

// Puts the names beside the lines' ends, apart from each other.
function nameEnds(chart, list) {
  const apart = 13;
  const there = list.map((end) => ({ arm: end.arm, at: chart.convertToPixel({ gridIndex: 0 }, end.at.slice(0, 2)) }))
    .filter((end) => end.at.every(finite)).sort((a, b) => a.at[1] - b.at[1]);
  const plot = chart.getModel().getComponent("grid", 0).coordinateSystem.getRect();
  const floor = plot.y + plot.height - 4;
  there.forEach((end, at) => { end.y = at ? Math.max(end.at[1], there[at - 1].y + apart) : end.at[1]; });
  for (let at = there.length - 1, most = floor; at >= 0; at -= 1) {
    there[at].y = Math.min(there[at].y, most); most = there[at].y - apart;
  }
  chart.setOption({ graphic: there.map((end, at) => ({ id: `end-${at}`, type: "text", silent: true, x: plot.x + plot.width + 6, y: end.y,
    style: { text: end.arm.name, fill: ofName(end.arm), fontSize: 11, textVerticalAlign: "middle" } })) });
}

// Straight lines across: { at, name, y } or { at, name, x }.
function across(lines) {
  const there = lines.filter((line) => finite(line.at));
  return { silent: true, symbol: "none", animation: false, lineStyle: { color: css("--soft"), type: [6, 4] },
    label: { color: css("--soft"), fontSize: 11, position: "insideStartBottom" },
    data: there.map((line) => Object.assign({ name: line.name, label: { formatter: line.name } },
      line.upright ? { xAxis: line.at } : { yAxis: line.at })) };
}

// A line for each arm: points are [x, median, low, high], in the order of the load. Optional: guide
// (y = x), ceiling and level (lines across), timeout (what is above was never answered), mark_x,
// log_x, log_y, free (the y axis need not start at zero).
function curves(figure) {
  const drawn = (p) => finite(p[1]) && (!figure.log_y || p[1] > 0) && (!figure.log_x || p[0] > 0);
  const lines = figure.lines.map((line) => ({ arm: line.arm, points: line.points.filter(drawn) }));
  const plain = lines.every((line) => line.points.every((p) => p[2] === p[3]));
  const series = [];
  for (const line of lines) {
    const arm = data.arms[line.arm];
    series.push({ name: arm.name, type: "line", data: line.points.map((p) => [p[0], p[1]]),
      color: colour(arm), symbol: mark(arm), symbolSize: plain && line.points.length > 30 ? 0 : 7,
      lineStyle: { type: dash(arm), width: 2 },
      tooltip: { formatter: (at) => {
        const p = line.points[at.dataIndex];
        const range = plain ? "" : ` (${show(p[2])} to ${show(p[3])})`;
        return `${html(arm.name)}<br>${figure.x}: ${show(p[0])}<br>${figure.y}: ${show(p[1])}${range}`;
      } } });
    if (!plain) {
      series.push({ name: arm.name, type: "custom", renderItem: bar, silent: true, color: colour(arm),
        data: line.points.map((p) => [p[0], figure.log_y ? Math.max(p[2], p[1] / 1e3) : p[2], p[3]]),
        encode: { x: 0, y: [1, 2] }, z: 1 });
    }
  }
  const all = lines.flatMap((line) => line.points);
  if (figure.guide) {
    const most = Math.max(...all.map((p) => p[0]));
    const high = Math.max(...all.map((p) => p[3]), figure.ceiling || 0);
    const end = Math.min(most, high * 1.05);
    series.push({ name: "all answered", type: "line", data: [[0, 0], [end, end]], symbol: "none",
      silent: true, color: css("--soft"), lineStyle: { type: "dotted", width: 1.5 } });
  }
  const values = all.flatMap((p) => p.slice(1, 4));
  const near = figure.timeout && Math.max(...values) > figure.timeout / 8;
  if (series.length) {
    series[0].markLine = across([{ at: figure.ceiling, name: "client's ceiling" },
      { at: figure.level, name: "service level" }, { at: near ? figure.timeout : null, name: "time-out" },
      { at: figure.mark_x, name: "", upright: true }]);
  }
  const key = legend(series.map((one) => one.name));
  const tall = figure.log_y
    ? powers(values.concat(near ? [figure.timeout] : [], finite(figure.level) ? [figure.level] : []))
    : Object.assign({ scale: !!figure.free }, finite(figure.ceiling)
      ? { max: (at) => Math.max(at.max, figure.ceiling) * 1.02, axisLabel: { color: css("--soft"),
        formatter: show, showMaxLabel: false } } : {});
  return frame({ series, legend: key.shown, ends: ends(lines),
    grid: { left: 12, right: endRoom(lines), top: 44, bottom: 30 + key.height, containLabel: true },
    xAxis: axis(figure.x, Object.assign({ type: figure.log_x ? "log" : "value", scale: !figure.guide,
      nameGap: 26 }, figure.guide ? { min: 0 } : {})),
    yAxis: upright(figure.y, Object.assign({ type: figure.log_y ? "log" : "value" }, tall)) });
}
KINDS.curves = curves;
TABLES.curves = (figure) => [["arm", figure.x, figure.y, "low", "high"]].concat(figure.lines.flatMap(
  (line) => line.points.map((p) => [data.arms[line.arm].name, ...p])));
