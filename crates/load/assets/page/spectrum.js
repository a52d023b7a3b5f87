// Time against 1/(1 - quantile), as HdrHistogram draws it; a panel for each set of lines. Right of
// `weak` fewer than ten samples lie beyond.
HEIGHTS.spectrum = (figure) => {
  const columns = narrow() || figure.panels.length === 1 ? 1 : 2;
  return figure.panels.length === 1 ? "" : `${270 * Math.ceil(figure.panels.length / columns) + 70}px`;
};
KINDS.spectrum = (figure) => {
  const columns = narrow() || figure.panels.length === 1 ? 1 : 2;
  const rows = Math.ceil(figure.panels.length / columns);
  const key = legend(figure.panels.flatMap((panel) => panel.lines.map((line) => data.arms[line.arm].name)));
  const foot = key.height + 34, head = 46;
  const place = document.getElementById("c-" + figure.id);
  const height = (place.clientHeight - foot - head * rows - 30 * (rows - 1)) / rows;
  const width = (room - 24 - 20 * (columns - 1)) / columns;
  const name = (x) => x < 1.5 ? "p0" : `p${+(100 * (1 - 1 / x)).toFixed(4)}`;
  const series = [], grid = [], xAxis = [], yAxis = [], title = [];
  const single = figure.panels.length === 1;
  figure.panels.forEach((panel, at) => {
    const column = at % columns, row = Math.floor(at / columns);
    const left = 8 + column * (width + 20), top = head + row * (height + head + 30);
    grid.push({ left, top, height, width: single ? width - (endRoom(panel.lines) - 16) : width - 12, containLabel: true });
    const most = Math.max(...panel.lines.flatMap((line) => line.points.map((p) => p[0])));
    xAxis.push(axis(row === rows - 1 ? "percentile" : "", { gridIndex: at, type: "log", min: 1, max: most, nameGap: 24,
      axisLabel: { color: css("--soft"), formatter: name, hideOverlap: true, showMaxLabel: false } }));
    yAxis.push(upright(single ? "ms" : "", Object.assign({ gridIndex: at, type: "log" },
      powers(panel.lines.flatMap((line) => line.points.map((p) => p[1]))))));
    if (panel.title) {
      title.push({ text: `${panel.title}, ms`, left, top: top - 34, textStyle: { fontSize: 13, fontWeight: 600, color: css("--ink") } });
    }
    panel.lines.forEach((line, order) => {
      const arm = data.arms[line.arm];
      const one = { name: arm.name, type: "line", xAxisIndex: at, yAxisIndex: at, color: colour(arm), symbol: mark(arm),
        symbolSize: 4, data: line.points.filter((p) => p[1] > 0), lineStyle: { type: dash(arm), width: 2 },
        tooltip: { formatter: (p) => `${html(arm.name)}<br>${name(p.value[0])}: ${show(p.value[1])} ms` } };
      if (order === 0 && finite(panel.weak) && panel.weak < most) {
        one.markArea = { silent: true, itemStyle: { color: css("--line"), opacity: 0.4 },
          label: { show: single, color: css("--soft"), position: "insideBottom", fontSize: 11 },
          data: [[{ name: narrow() ? "" : "fewer than 10 beyond", xAxis: Math.max(panel.weak, 1) }, { xAxis: most }]] };
      }
      series.push(one);
    });
  });
  return frame({ series, grid, xAxis, yAxis, title, legend: key.shown, ends: single ? ends(figure.panels[0].lines) : [] });
};
TABLES.spectrum = (figure) => [["panel", "arm", "percentile", "ms"]].concat(figure.panels.flatMap((panel) =>
  panel.lines.flatMap((line) => line.points.map((p) => [panel.title, data.arms[line.arm].name, 100 * (1 - 1 / p[0]), p[1]]))));

