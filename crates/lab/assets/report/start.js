function draw(id, choice) {
  const figure = data.figures[id], place = document.getElementById("c-" + id);
  let chart = charts.get(id);
  if (!chart) { chart = echarts.init(place, null, { renderer: "svg" }); charts.set(id, chart); }
  chart.setOption(KINDS[figure.kind](figure, choice), true);
}
const chosen = (id) => { const at = document.querySelector(`select[data-for="${id}"]`); return at ? +at.value : 0; };
const all = () => Object.keys(data.figures).forEach((id) => draw(id, chosen(id)));
document.querySelectorAll("select[data-for]").forEach((at) =>
  at.addEventListener("change", () => draw(at.dataset.for, +at.value)));
window.addEventListener("resize", () => { charts.forEach((chart) => chart.resize()); all(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
window.addEventListener("beforeprint", () => { charts.forEach((chart) => chart.resize()); all(); });
all();
