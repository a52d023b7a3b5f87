// The starting sequence: five minutes of signals, ten times as fast. The page is complete
// without it, so the clock stays hidden until this runs.
"use strict";

const SPEED = 10;
const SIGNALS = [
  { at: 300, text: "Warning: class flag up, one horn." },
  { at: 240, text: "Preparatory: P flag up, one horn." },
  { at: 60, text: "One minute: P flag down, one long horn." },
  { at: 0, text: "Start! Class flag down, one horn." },
];

const clock = document.getElementById("clock");
const time = document.getElementById("time");
const signal = document.getElementById("signal");
const button = document.getElementById("run");
let timer = null;

function show(seconds) {
  const whole = Math.max(0, Math.ceil(seconds));
  time.textContent = `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

function run() {
  const begun = performance.now();
  let next = 0;
  clearInterval(timer);
  timer = setInterval(() => {
    const left = 300 - ((performance.now() - begun) / 1000) * SPEED;
    show(left);
    while (next < SIGNALS.length && left <= SIGNALS[next].at) {
      signal.textContent = SIGNALS[next].text;
      next += 1;
    }
    if (left <= 0) {
      clearInterval(timer);
      button.textContent = "Again";
    }
  }, 100);
  button.textContent = "From the beginning";
}

if (clock && button) {
  clock.hidden = false;
  button.addEventListener("click", run);
}
