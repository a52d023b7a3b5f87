// Our curves, and the points of a paper as large open marks.
function beside(figure) {
  const drawn = curves(figure);
  for (const point of figure.points) {
    const arm = point.arm === null ? null : data.arms[point.arm];
    drawn.series.push({ name: arm ? arm.name : point.name, type: "scatter", data: [[point.x, point.y]],
      symbol: arm ? mark(arm) : "circle", symbolSize: 17, z: 3,
      itemStyle: { color: "transparent", borderWidth: 2, borderColor: arm ? colour(arm) : css("--soft") },
      tooltip: { formatter: () => `the paper, ${point.name}<br>${show(point.y)} at ${show(point.x)}<br>${asText(point.said)}` } });
  }
  return drawn;
}
function asText(text) {
  return text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
}
KINDS.beside = beside;
TABLES.beside = (figure) => TABLES.curves(figure).concat(figure.points.map(
  (point) => [`the paper, ${point.name}`, point.x, point.y, "", ""]));

