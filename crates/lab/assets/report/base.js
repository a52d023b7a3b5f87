"use strict";
// Draws the figures of a report from the JSON beside it. One colour, dash and mark for each arm in
// all figures; the baseline's second run has the baseline's colour, dotted.
const data = JSON.parse(document.getElementById("data").textContent);
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#B8860B", "#56B4E9", "#7F7F7F", "#8E6BBF",
  "#5E8C31", "#A0522D", "#008B8B", "#C71585"];
const MARKS = ["circle", "rect", "triangle", "diamond", "arrow", "roundRect"];
const DASHES = ["solid", "dashed", [2, 3], [8, 3, 2, 3]];
const charts = new Map();
// What draws each kind of figure: (figure, choice) to the chart's options.
const KINDS = {};
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const narrow = () => document.body.clientWidth < 700;
const colour = (arm) => COLOURS[arm.colour % COLOURS.length];
const mark = (arm) => MARKS[arm.colour % MARKS.length];
const dash = (arm) => arm.again ? "dotted" : DASHES[Math.floor(arm.colour / 4) % DASHES.length];
const show = (x) => {
  if (x === null || x === undefined) return "";
  const size = Math.abs(x);
  const digits = size >= 100 || size === 0 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 4;
  return x.toLocaleString("en", { maximumFractionDigits: digits });
};

function frame(extra) {
  const ink = css("--ink"), soft = css("--soft"), line = css("--line");
  const base = {
    animation: false, backgroundColor: "transparent", textStyle: { color: ink, fontSize: 13 },
    grid: { left: 12, right: narrow() ? 16 : 28, top: 44, bottom: 56, containLabel: true },
    toolbox: { right: 4, top: 0, feature: { dataZoom: { title: { zoom: "zoom", back: "back" } },
      restore: { title: "restore" }, saveAsImage: { title: "save", type: "svg", name: data.name } },
      iconStyle: { borderColor: soft } },
    legend: { bottom: 0, type: "scroll", textStyle: { color: ink }, pageTextStyle: { color: ink },
      pageIconColor: ink },
    tooltip: { trigger: "item", confine: true, backgroundColor: css("--panel"), borderColor: line,
      textStyle: { color: ink } },
  };
  return Object.assign(base, extra);
}

function axis(name, extra) {
  const soft = css("--soft"), line = css("--line");
  return Object.assign({ type: "value", name, nameLocation: "middle", nameGap: 30,
    nameTextStyle: { color: soft }, axisLabel: { color: soft, formatter: show, hideOverlap: true },
    axisLine: { show: true, lineStyle: { color: line } }, splitLine: { lineStyle: { color: line, opacity: 0.6 } } },
  extra || {});
}
// Labels of a vertical axis stand above it: beside it they would need room that phones lack.
const upright = (name, extra) => axis(name, Object.assign({ nameLocation: "end", nameGap: 12,
  nameTextStyle: { color: css("--soft"), align: "left", padding: [0, 0, 0, -8] } }, extra || {}));

