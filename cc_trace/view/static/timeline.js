// The time axis of a turn: which part of the turn is shown, its marks, and how the pointer zooms and pans.
import { clock, node, time } from "./texts.js";

const DAY = 86400000;
// Where clocks have their marks: seconds, minutes, hours.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400].map((seconds) => seconds * 1000);
const LEAST = 0.01;  // milliseconds that can be shown: a turn whose times are not known has fewer
const DRAGGED = 4;  // pixels: less is a click

// Times are milliseconds from the turn's start. `changed` is called when another part is to be shown.
export function timeline(root, scroll, space, changed) {
  const ticks = document.getElementById("ticks"), range = document.getElementById("range");
  const brush = node("i", "brush"), cursor = node("span", "cursor");
  let duration = 1, from = 0, to = 1, midnight = null;

  const isPart = () => from > 0 || to < duration;
  const percent = (at) => ((at - from) / (to - from)) * 100;

  // Show a part of the time; what lies beyond the turn is cut off.
  function look(begin, end) {
    const size = Math.min(duration, Math.max(LEAST, end - begin));
    from = Math.min(Math.max(0, begin), duration - size);
    to = from + size;
    changed();
  }

  const whole = () => look(0, duration);
  const pan = (share) => look(from + (to - from) * share, to + (to - from) * share);

  // Zoom so that what is at a share of the width stays there.
  function scaleAt(share, factor) {
    const middle = from + (to - from) * share, size = (to - from) * factor;
    look(middle - size * share, middle + size * (1 - share));
  }

  // Zoom about a time, which comes to the middle.
  function scaleAbout(at, factor) {
    const middle = at ?? (from + to) / 2, size = (to - from) * factor;
    look(middle - size / 2, middle + size / 2);
  }

  // The turn may have become longer. `clockAtStart`: the time of day at its start.
  function setDuration(ms, clockAtStart) {
    midnight = clockAtStart;
    if (ms === duration) return;
    const showsAll = !isPart();
    duration = Math.max(ms, 0.001);
    if (showsAll) { from = 0; to = duration; }
  }

  function draw() {
    const rough = (to - from) / 6, power = 10 ** Math.floor(Math.log10(rough));
    const step = rough < 1000 ? [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough)
      : STEPS.find((size) => size >= rough) ?? Math.ceil(rough / DAY) * DAY;
    const marks = [], lines = [];
    if (duration > LEAST) for (let mark = Math.ceil(from / step) * step; mark < to; mark += step) {
      const at = percent(mark);
      lines.push(`transparent ${at}%`, `var(--line) ${at}%`, `var(--line) calc(${at}% + 1px)`, `transparent calc(${at}% + 1px)`);
      const tick = node("span", "tick", mark < 60000 || step >= 1000 ? time(mark) : `${time(mark - (mark % 60000))} ${((mark % 60000) / 1000).toFixed(step < 100 ? 3 : 1)} s`);
      tick.style.left = `${at}%`;
      marks.push(tick);
    }
    ticks.replaceChildren(...marks, ...[brush, cursor].filter((each) => each.isConnected));
    const cut = marks.filter((tick) => tick.offsetLeft + tick.offsetWidth > ticks.clientWidth);
    for (const tick of cut) tick.remove();
    root.style.setProperty("--grid", lines.length ? `linear-gradient(90deg, ${lines.join(", ")})` : "none");
    root.style.setProperty("--scrollbar", `${scroll.offsetWidth - scroll.clientWidth}px`);
    root.classList.toggle("zoomed", isPart());
    range.hidden = !isPart();
    range.firstElementChild.style.left = `${(from / duration) * 100}%`;
    range.firstElementChild.style.width = `${((to - from) / duration) * 100}%`;
  }

  const shareOf = (event, element) => {
    const box = element.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };

  // Call `begin`, `move` and `end` with where the pointer was pressed and where it is, as shares of an element's width.
  function drags(element, begin, move, end) {
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const start = shareOf(event, element);
      element.setPointerCapture(event.pointerId);
      begin(start);
      const moved = (each) => move(start, shareOf(each, element));
      element.addEventListener("pointermove", moved);
      element.addEventListener("pointerup", (each) => {
        element.removeEventListener("pointermove", moved);
        end(start, shareOf(each, element));
      }, { once: true });
    });
  }

  // Over the axis, a drag zooms to what was dragged over.
  drags(ticks, () => {}, (start, now) => {
    brush.style.left = `${Math.min(start, now) * 100}%`;
    brush.style.width = `${Math.abs(now - start) * 100}%`;
    ticks.append(brush);
  }, (start, now) => {
    brush.remove();
    const width = to - from;
    if (Math.abs(now - start) > 0.005) look(from + Math.min(start, now) * width, from + Math.max(start, now) * width);
  });

  // The strip below the rows stands for the whole turn: a drag moves the part that is shown.
  let grabbed = 0;
  drags(range, (start) => {
    const middle = (from + to) / 2 / duration, half = (to - from) / 2 / duration;
    grabbed = Math.abs(start - middle) <= half ? start - middle : 0;
  }, (_, now) => {
    const middle = (now - grabbed) * duration, half = (to - from) / 2;
    look(middle - half, middle + half);
  }, () => {});

  // Over the rows, a drag moves what is shown, as one moves a map.
  space.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !isPart() || !event.target.closest(".track")) return;
    const width = ticks.clientWidth, startX = event.clientX, [begin, end] = [from, to];
    let dragged = false;
    const moved = (each) => {
      dragged ||= Math.abs(each.clientX - startX) > DRAGGED;
      if (!dragged) return;
      space.setPointerCapture(event.pointerId);
      const by = ((startX - each.clientX) / width) * (end - begin);
      look(begin + by, end + by);
    };
    const ended = () => {
      for (const name of ["pointerup", "pointercancel"]) space.removeEventListener(name, ended);
      space.removeEventListener("pointermove", moved);
      if (!dragged) return;
      const swallow = (each) => each.stopPropagation();  // the click that follows is part of the drag
      addEventListener("click", swallow, { capture: true });
      setTimeout(() => removeEventListener("click", swallow, { capture: true }));
    };
    space.addEventListener("pointermove", moved);
    for (const name of ["pointerup", "pointercancel"]) space.addEventListener(name, ended);
  });

  scroll.addEventListener("wheel", (event) => {
    const isSideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (event.ctrlKey) scaleAt(shareOf(event, ticks), event.deltaY > 0 ? 1.25 : 0.8);
    else if (event.shiftKey || (isSideways && isPart())) pan((event.deltaX || event.deltaY) / 1000);
    else return;
    event.preventDefault();
  }, { passive: false });

  // A line at the pointer, and its time above it.
  root.addEventListener("pointermove", (event) => {
    const box = ticks.getBoundingClientRect();
    const isInside = event.clientX >= box.left && event.clientX <= box.right && event.target.closest(".ticks, .scroll");
    if (!isInside) { leave(); return; }
    const share = shareOf(event, ticks), at = from + (to - from) * share;
    cursor.textContent = time(at) + (midnight === null ? "" : ` · ${clock(midnight + at)}`);
    cursor.classList.toggle("left", share > 0.7);
    cursor.style.left = `${share * 100}%`;
    ticks.append(cursor);
    root.style.setProperty("--cursor", `${share * 100}%`);
  });
  function leave() {
    cursor.remove();
    root.style.removeProperty("--cursor");
  }
  root.addEventListener("pointerleave", leave);

  return {
    draw, look, whole, pan, scaleAbout, setDuration, isPart, percent,
    width: (begin, end) => (Math.max(0, end - begin) / (to - from)) * 100,
    isOutside: (begin, end) => begin > to || end < from,
    clock: (at) => (midnight === null ? "" : clock(midnight + at)),
    duration: () => duration,
    key: () => `${from},${to}`,
  };
}
