// The crossing of two options: cells are [x, y, value, on the plateau, whose rules it breaks], by the places of the levels.
function matrix(figure, choice) {
  const map = figure.maps[choice || 0], nameX = map.x || figure.x, nameY = map.y || figure.y;
  const values = map.cells.map((cell) => cell[2]);
  const least = Math.min(...values), most = Math.max(...values);
  const tones = ["#F7FBFF", "#C6DBEF", "#6BAED6", "#3F8EC6"];
  const place = (name, levels, extra) => axis(name, Object.assign({ type: "category", data: levels, splitLine: { show: false },
    splitArea: { show: false } }, extra || {}));
  const series = [{ type: "heatmap", data: map.cells.map((cell) => ({ value: cell.slice(0, 3),
      itemStyle: cell[3] ? { borderColor: "#D55E00", borderWidth: 3 } : { borderColor: css("--panel"), borderWidth: 1 } })),
    label: { show: true, color: "#111", formatter: (at) => show(at.value[2]) + (map.cells[at.dataIndex][4] ? " ×" : "") },
    tooltip: { formatter: (at) => {
      const [x, y, value] = at.value, [, , , near, whose] = map.cells[at.dataIndex];
      const more = (near ? "<br>on the plateau" : "") + (whose ? `<br>breaks the rules of ${whose}` : "");
      return `${nameX} ${map.xs[x]}, ${nameY} ${map.ys[y]}<br>${show(value)} ${figure.unit}${more}`;
    } } }];
  return frame({ series, legend: undefined,
    grid: { left: 12, right: 28, top: 44, bottom: 96, containLabel: true },
    visualMap: { min: least, max: most > least ? most : least + 1, calculable: false, orient: "horizontal", left: "center",
      bottom: 4, itemHeight: 140, textStyle: { color: css("--ink") }, formatter: show,
      inRange: { color: figure.more ? tones : tones.slice().reverse() } },
    xAxis: place(nameX, map.xs), yAxis: upright(nameY, { type: "category", data: map.ys, splitLine: { show: false } }) });
}
KINDS.matrix = matrix;
TABLES.matrix = (figure, choice) => {
  const map = figure.maps[choice || 0];
  return [[map.x || figure.x, map.y || figure.y, figure.unit, "on the plateau", "breaks the rules of"]].concat(
    map.cells.map(([x, y, value, near, whose]) => [map.xs[x], map.ys[y], value, near ? "yes" : "no", whose || ""]));
};
