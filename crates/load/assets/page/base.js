"use strict";
// What all figures of a report share: colours, axes, legends, and the table of their numbers. One
// colour, dash and mark for each arm in all figures; the baseline's second run is dotted.
// What goes wrong, for who looks at the page by program.
window.addEventListener("error", (at) => { document.documentElement.dataset.error = at.message; });
const data = JSON.parse(document.getElementById("data").textContent);
const LIGHT = ["#0072B2", "#D55E00", "#009E73", "#B5548C", "#9A7200", "#2E93CF", "#6B6B6B",
  "#7C58B0", "#4F7D23", "#A0522D", "#00807F", "#C71585"];
const DARK = ["#5AB0EA", "#FF9350", "#35CFA2", "#E79CC8", "#E0BC4A", "#9AD6FA", "#B5B5B5",
  "#BCA0EC", "#A3CF72", "#E09A72", "#4CCFCF", "#FF7CC4"];
// Parts of a bar, which patterns tell apart without colours.
const TONES = { light: ["#0B4F79", "#E6A01E", "#0F9A74", "#C4679B", "#7F7F7F", "#7CC4EE", "#6E4E9E",
  "#B4C94A"], dark: ["#4C9FD6", "#F2BE55", "#47D1A8", "#E29AC4", "#A9A9A9", "#B9E2FA", "#A88BDA",
  "#D6E77F"] };
const MARKS = ["circle", "rect", "triangle", "diamond", "emptyCircle", "emptyRect"];
const DASHES = ["solid", "dashed", [2, 3], [8, 3, 2, 3]];
const charts = new Map();
// What draws each kind of figure: (figure, choice) to the chart's options.
const KINDS = {};
// The numbers of each kind of figure as rows, the first of headings.
const TABLES = {};
// The height of kinds that depend on the width, as CSS has it.
const HEIGHTS = {};
// Width of the chart that is being drawn, pixels.
let room = 700;

const root = document.documentElement;
const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();
const paper = () => root.classList.contains("paper");
const dark = () => !paper() && matchMedia("(prefers-color-scheme: dark)").matches;
const narrow = () => room < 560;
const colour = (arm) => (dark() ? DARK : LIGHT)[arm.colour % LIGHT.length];
// The colour of an arm's name: darker on white, where its line's would be too pale for a text.
const ofName = (arm) => dark() ? colour(arm) : colour(arm).replace(/[\dA-F]{2}/g,
  (part) => Math.round(parseInt(part, 16) * 0.75).toString(16).padStart(2, "0"));
const tone = (at) => TONES[dark() ? "dark" : "light"][at % TONES.light.length];
const mark = (arm) => MARKS[arm.colour % MARKS.length];
const dash = (arm) => arm.again ? "dotted" : DASHES[Math.floor(arm.colour / 3) % DASHES.length];
const finite = (x) => typeof x === "number" && Number.isFinite(x);

// A number with three or four digits that mean something.
function show(x) {
  if (!finite(x)) return "–";
  const size = Math.abs(x);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  return x.toLocaleString("en", { maximumFractionDigits: digits });
}
const html = (text) => String(text).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

// About how wide a text is, in pixels.
const wide = (text, size = 13) => String(text).length * size * 0.56;

// A legend that shows all of its names, and the height that it takes.
function legend(names) {
  const unique = [...new Set(names)];
  let rows = 1, at = 0;
  for (const name of unique) {
    const takes = wide(name, 12) + 48;
    if (at + takes > room && at > 0) { rows += 1; at = 0; }
    at += takes;
  }
  const shown = { bottom: 0, left: "center", type: "plain", data: unique, itemWidth: 26, itemGap: 14,
    textStyle: { color: css("--ink"), fontSize: 12 } };
  return { shown: unique.length > 1 ? shown : undefined, height: unique.length > 1 ? 28 * rows : 0 };
}

function frame(extra) {
  const ink = css("--ink"), soft = css("--soft"), line = css("--line");
  const base = {
    animation: false, backgroundColor: "transparent", textStyle: { color: ink, fontSize: 13,
      fontFamily: "system-ui, sans-serif" },
    grid: { left: 12, right: narrow() ? 24 : 28, top: 40, bottom: 44, containLabel: true },
    toolbox: { show: !paper() && !narrow(), right: 4, top: 0, itemSize: 13, feature: {
      dataZoom: { title: { zoom: "zoom", back: "back" } }, restore: { title: "restore" } },
      iconStyle: { borderColor: soft } },
    tooltip: { trigger: "item", confine: true, backgroundColor: css("--panel"), borderColor: line,
      textStyle: { color: ink } },
  };
  return Object.assign(base, extra);
}

function axis(name, extra) {
  const soft = css("--soft"), line = css("--line");
  return Object.assign({ type: "value", name, nameLocation: "middle", nameGap: 28,
    nameTextStyle: { color: soft }, axisLabel: { color: soft, formatter: show, hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: line } },
    splitLine: { lineStyle: { color: line, opacity: 0.6 } } }, extra || {});
}
// Labels of a vertical axis stand above it: beside it they would need room that phones lack.
const upright = (name, extra) => axis(name, Object.assign({ nameLocation: "end", nameGap: 12,
  nameTextStyle: { color: css("--soft"), align: "left", padding: [0, 0, 0, -8] } }, extra || {}));
// Names of rows.
const margin = (labels) => 14 + Math.min(narrow() ? 104 : 260, Math.max(...labels.map((name) => wide(name, narrow() ? 11 : 13))));
const names = (labels) => axis("", { type: "category", inverse: true, data: labels,
  splitLine: { show: false }, axisTick: { show: false }, axisLabel: { color: css("--ink"), interval: 0,
    width: narrow() ? 104 : 260, overflow: "break", lineHeight: 13, fontSize: narrow() ? 11 : 12.5 } });

// The ends of a logarithmic axis: powers of ten, or halves of them where that leaves less empty.
function powers(values) {
  const there = values.filter((x) => finite(x) && x > 0);
  if (!there.length) return {};
  const down = (x) => [5, 2, 1].map((n) => n * 10 ** Math.floor(Math.log10(x))).find((n) => n <= x * 1.0001);
  const up = (x) => [1, 2, 5, 10].map((n) => n * 10 ** Math.floor(Math.log10(x))).find((n) => n >= x * 0.9999);
  let min = down(Math.min(...there)), max = up(Math.max(...there));
  if (min === max) { min /= 2; max *= 2; }
  return { min, max };
}

