const chosen = (id) => { const at = document.querySelector(`select[data-for="${id}"]`); return at ? +at.value : 0; };

function draw(id) {
  const figure = data.figures[id], place = document.getElementById("c-" + id);
  let chart = charts.get(id);
  room = place.clientWidth;
  // Panels below each other need height.
  place.style.height = HEIGHTS[figure.kind] ? HEIGHTS[figure.kind](figure) : "";
  if (!chart) { chart = echarts.init(place, null, { renderer: "svg" }); charts.set(id, chart); }
  chart.resize();
  figure.id = id;
  const options = KINDS[figure.kind](figure, chosen(id)), named = options.ends || [];
  delete options.ends;
  chart.setOption(options, true);
  // Zoomed, the ends are elsewhere; the legend stays.
  chart.off("datazoom");
  if (named.length) {
    nameEnds(chart, named);
    chart.on("datazoom", () => chart.setOption({ graphic: named.map((_, at) => ({ id: `end-${at}`, $action: "remove" })) }));
  }
  const told = document.querySelector(`[data-told="${id}"]`), select = document.querySelector(`select[data-for="${id}"]`);
  if (told && select) told.textContent = select.selectedOptions[0].textContent;
}
// What scrolls can be scrolled by keys, too; nothing else is a stop of the tabulator.
function reach() {
  document.querySelectorAll(".scroll, pre").forEach((box) => {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0; else box.removeAttribute("tabindex");
  });
}
function all() {
  Object.keys(data.figures).forEach(draw);
  reach();
}

// Saving: what is seen as SVG or PNG, its numbers as CSV.
function save(name, url) {
  const link = Object.assign(document.createElement("a"), { href: url, download: `${data.name}-${name}` });
  document.body.append(link); link.click(); link.remove();
}
const quoted = (value) => {
  const text = value === null || value === undefined ? "" : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
const table = (id) => TABLES[data.figures[id].kind](data.figures[id], chosen(id));
const csv = (id) => table(id).map((row) => row.map(quoted).join(",") + "\n").join("");
const picture = (id) => charts.get(id).getDataURL({ type: "svg" });
function png(id) {
  const place = document.getElementById("c-" + id), image = new Image(), scale = 2;
  image.onload = () => {
    const canvas = Object.assign(document.createElement("canvas"),
      { width: place.clientWidth * scale, height: place.clientHeight * scale });
    const pen = canvas.getContext("2d");
    pen.fillStyle = css("--page"); pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    save(`${id}.png`, canvas.toDataURL("image/png"));
  };
  image.src = picture(id);
}
document.querySelectorAll("[data-save]").forEach((button) => button.addEventListener("click", () => {
  const id = button.dataset.of;
  if (button.dataset.save === "png") return png(id);
  if (button.dataset.save === "svg") return save(`${id}.svg`, picture(id));
  return save(`${id}.csv`, URL.createObjectURL(new Blob([csv(id)], { type: "text/csv" })));
}));

// What is wrong with the page, for who looks at it by program: `data-checked` is "ok" or the faults.
function check() {
  const faults = [];
  for (const id of Object.keys(data.figures)) {
    const chart = charts.get(id);
    const drawn = chart ? chart.getOption().series || [] : [];
    if (!drawn.some((one) => one.data && one.data.length)) faults.push(`${id} has no series with numbers`);
    const svg = document.querySelector(`#c-${CSS.escape(id)} svg`);
    if (!svg || svg.querySelectorAll("path").length < 3) faults.push(`${id} is empty`);
    const rows = TABLES[data.figures[id].kind] ? table(id) : [];
    if (rows.length < 2 || rows.some((row) => row.length !== rows[0].length)) faults.push(`${id} has no whole table`);
    const caption = document.querySelector(`#${CSS.escape(id)} figcaption`);
    if (!caption || caption.textContent.trim().length < 40) faults.push(`${id} has no caption`);
  }
  if (root.scrollWidth > root.clientWidth + 1) faults.push(`wider than the screen: ${root.scrollWidth} of ${root.clientWidth}`);
  root.dataset.checked = faults.join("; ") || "ok";
}

const onPaper = (is) => { root.classList.toggle("paper", is); all(); };
document.querySelectorAll("select[data-for]").forEach((at) => at.addEventListener("change", () => draw(at.dataset.for)));
window.addEventListener("resize", all);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", all);
window.addEventListener("beforeprint", () => onPaper(true));
window.addEventListener("afterprint", () => onPaper(false));
all();
check();
