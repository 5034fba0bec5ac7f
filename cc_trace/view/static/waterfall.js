// The spans of a turn as a tree and on a time axis. Only the rows near the screen are asked for and in the page.
import { divider } from "./divider.js";
import { detailPane } from "./pane.js";
import { brief, money, node, time } from "./texts.js";
import { timeline } from "./timeline.js";

const CHUNK = 200;
const MIN_PIXELS = 2;
const HEIGHT = 26;  // of a row
const BEYOND = 10;  // rows above and below the screen
const WAITED = { permission: "for your permission", answer: "for your answer", retry: "before a retry", hook: "for a hook" };

export function waterfall() {
  const root = document.getElementById("waterfall"), scroll = document.getElementById("scroll");
  const space = document.getElementById("space");
  const axis = timeline(root, scroll, space, () => draw());
  const pane = detailPane(() => chosen?.id);
  const folded = new Set();
  let chunks = new Map(), asked = new Set(), elements = new Map();
  let total = 0, chosen = null, generation = 0;
  let running = null;  // of a turn that goes on: its length, when that was, and the time of day at its start

  // The rows that have been loaded

  const at = (index) => chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK];

  async function load(number) {
    if (asked.has(number)) return;
    asked.add(number);
    const mine = generation;
    try {
      const response = await fetch(`${root.dataset.rows}?offset=${number * CHUNK}&limit=${CHUNK}&folded=${[...folded].join(",")}`);
      if (!response.ok || mine !== generation) return;
      const data = await response.json();
      if (mine !== generation) return;
      total = data.total;
      axis.setDuration(data.duration, data.clock);
      running = data.running ? { length: data.duration, since: performance.now(), clock: data.clock } : null;
      chunks.set(number, data.rows);
    } finally { if (mine === generation) asked.delete(number); }
    draw();
  }

  function forget() {
    generation += 1;
    asked = new Set();
    chunks = new Map();
  }

  async function reload() {
    const old = chunks;
    forget();
    await load(Math.floor(onScreen(BEYOND)[0] / CHUNK));
    if (!chunks.size) chunks = old;
    draw();
  }

  function indexOf(row) {
    for (const [number, rows] of chunks) {
      const place = rows.findIndex((each) => each.id === row?.id);
      if (place >= 0) return number * CHUNK + place;
    }
    return -1;
  }

  // Drawing

  // The first row on the screen, and the one after the last, with some beyond.
  function onScreen(beyond = 0) {
    const first = Math.floor(scroll.scrollTop / HEIGHT) - beyond;
    const end = Math.ceil((scroll.scrollTop + scroll.clientHeight) / HEIGHT) + beyond;
    return [Math.max(0, first), Math.min(total, end)];
  }

  function draw() {
    space.style.height = `${total * HEIGHT}px`;
    const [first, end] = onScreen(BEYOND), wanted = new Map();
    for (let index = first; index < end; index += 1) {
      const row = at(index);
      if (row) wanted.set(row.id, [row, index]);
      else load(Math.floor(index / CHUNK));
    }
    for (const [id, element] of elements) if (!wanted.has(id)) { element.remove(); elements.delete(id); }
    for (const [id, [row, index]] of wanted) {
      const element = drawn(row);
      element.style.transform = `translateY(${index * HEIGHT}px)`;
      element.classList.toggle("chosen", id === chosen?.id);
    }
    axis.draw();
    root.dataset.ready = "1";
  }

  // The element of a row, made anew if the row or what is shown of the time has changed.
  function drawn(row) {
    const known = elements.get(row.id), content = JSON.stringify(row) + axis.key();
    if (known?.content === content) return known;
    const element = node("div", `span ${row.kind} ${row.status}${row.hot ? " hot" : ""}`);
    element.content = content;
    element.dataset.id = row.id;
    element.append(treeCell(row), trackCell(row));
    if (known) known.replaceWith(element); else space.append(element);
    elements.set(row.id, element);
    return element;
  }

  function treeCell(row) {
    const cell = node("div", "tree"), indent = node("span", "indent");
    indent.style.width = `${Math.min(row.depth, 12) * (innerWidth > 560 ? 14 : 6)}px`;
    const fold = node("button", "fold", row.below ? (folded.has(row.place) ? "▸" : "▾") : "");
    fold.type = "button";
    fold.tabIndex = -1;
    if (row.below) fold.title = `${row.below} step${row.below === 1 ? "" : "s"} below`;
    const name = node("b", "name", brief(row.name));
    const cost = row.total ?? row.cost, spent = node("span", "cost", cost ? money(cost) : "");
    if (cost && row.cost && cost !== row.cost) spent.title = `${money(row.cost)} for the request itself, ${money(cost)} with agents`;
    cell.title = row.label ? `${row.name}: ${row.label}` : row.name;
    cell.append(indent, fold, node("span", `dot ${row.kind}`), name, node("span", "label", row.label), spent);
    return cell;
  }

  function trackCell(row) {
    const track = node("div", "track");
    if (row.lane) track.append(box("lane", ...row.lane));
    if (row.start === null) return track;
    const isOpen = Boolean(running) && (row.kind === "turn" || row.status === "incomplete" || row.end === null);
    const end = isOpen ? axis.duration() : row.end ?? row.start;
    const bar = box(`box ${row.kind}${isOpen ? " open" : ""}`, row.start, end);
    bar.title = [row.name, time(end - row.start), `from ${time(row.start)}`, axis.clock(row.start)].filter(Boolean).join(" · ");
    track.append(bar);
    if (row.first !== null && row.first > row.start) track.append(box("box first", row.start, Math.min(row.first, end)));
    for (const [kind, begin, stop] of row.waits) {
      const wait = box(`wait ${kind}`, begin, stop);
      wait.title = `waited ${time(stop - begin)} ${WAITED[kind] ?? kind}`;
      track.append(wait);
    }
    const last = Math.max(end, ...row.waits.map((wait) => wait[2]));
    if (!axis.isOutside(row.start, last)) track.append(lengthBeside(row.start, last));
    return track;
  }

  // A box lies where its times say; one too short to be seen is as wide as can be seen.
  function box(classes, begin, end) {
    const made = node("i", classes);
    made.style.left = `${axis.percent(begin)}%`;
    made.style.width = `max(${MIN_PIXELS}px, ${axis.width(begin, end)}%)`;
    return made;
  }

  // How long it took: after the bar, else before it; a bar that leaves no room has it inside.
  function lengthBeside(start, end) {
    const took = node("span", "took", time(end - start)), left = axis.percent(start), right = axis.percent(end);
    if (right < 88) took.style.left = `calc(${right}% + 5px)`;
    else if (left > 12) took.style.right = `calc(${100 - left}% + 5px)`;
    else took.classList.add("inside");
    return took;
  }

  // Choosing a row

  async function choose(row, { push = true } = {}) {
    if (!row) return;
    chosen = row;
    draw();
    if (push) history.replaceState(null, "", `?span=${row.id}`);
    await pane.show(row.id);
  }

  function scrollTo(index) {
    if (index * HEIGHT < scroll.scrollTop) scroll.scrollTop = index * HEIGHT;
    else if ((index + 1) * HEIGHT > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = (index + 1) * HEIGHT - scroll.clientHeight;
  }

  async function goTo(place, id) {
    scroll.scrollTop = Math.max(0, place * HEIGHT - scroll.clientHeight / 3);
    await load(Math.floor(place / CHUNK));
    const row = at(place);
    if (row && (!id || row.id === id)) await choose(row);
  }

  // Go to a row that may be folded away.
  async function find(place) {
    if (folded.size) {
      folded.clear();
      forget();
      await load(0);
    }
    await goTo(place);
    if (chosen && chosen.start !== null && axis.isOutside(chosen.start, chosen.end ?? chosen.start)) axis.whole();
  }

  // What the address asks for, or the turn. A change that comes before the first rows takes their place: then it is asked
  // for again.
  async function chooseFirst() {
    const place = Number(root.dataset.place);
    if (place > 0) await goTo(place, root.dataset.span).then(pane.reveal);
    else if (at(0)) await choose(at(0), { push: false });
  }

  function fold(row, close) {
    if (!row?.below || folded.has(row.place) === close) return;
    if (close) folded.add(row.place); else folded.delete(row.place);
    reload();
  }

  // Zooming to rows

  function zoomTo(rows) {
    const timed = rows.filter((row) => row && row.start !== null);
    if (!timed.length) return;
    const begin = Math.min(...timed.map((row) => row.start));
    const end = Math.max(begin + 0.001, ...timed.map((row) => row.end ?? row.start));
    const margin = (end - begin) * 0.02;
    axis.look(begin - margin, end + margin);
  }

  // What is on the screen, without what holds it: the turn and the agents.
  function fit() {
    const [first, end] = onScreen();
    const rows = Array.from({ length: end - first }, (_, number) => at(first + number)).filter(Boolean);
    const inner = rows.filter((row) => row.kind !== "turn" && row.kind !== "subagent");
    zoomTo(inner.length ? inner : rows);
  }

  // About the chosen row; the turn itself has no place of its own.
  function scale(factor) {
    const hasPlace = chosen?.place && chosen.start !== null;
    axis.scaleAbout(hasPlace ? (chosen.start + (chosen.end ?? chosen.start)) / 2 : null, factor);
  }

  scroll.addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", draw);
  document.getElementById("zoom-in").addEventListener("click", () => scale(0.5));
  document.getElementById("zoom-out").addEventListener("click", () => scale(2));
  document.getElementById("zoom-fit").addEventListener("click", fit);
  document.getElementById("zoom-all").addEventListener("click", axis.whole);
  space.addEventListener("dblclick", () => zoomTo([chosen]));
  space.addEventListener("click", (event) => {
    const element = event.target.closest(".span");
    if (!element) return;
    const row = [...chunks.values()].flat().find((each) => each.id === element.dataset.id);
    if (event.target.closest(".fold")) fold(row, !folded.has(row.place));
    else choose(row).then(pane.reveal);
  });
  // Links to steps, above the waterfall and among the details.
  document.getElementById("main").addEventListener("click", (event) => {
    const link = event.target.closest("a[data-place]");
    if (!link) return;
    event.preventDefault();
    root.focus({ preventScroll: true });  // so that Enter is for the span, not for the link again
    find(Number(link.dataset.place)).then(pane.reveal);
  });

  // In a narrow window the details are below the spans.
  document.getElementById("to-row").addEventListener("click", () => {
    root.scrollIntoView({ block: "start" });
    const index = indexOf(chosen);
    if (index >= 0) scrollTo(index);
  });

  divider("steps-divider", root, "--steps");
  divider("pane-divider", root.parentElement, "--waterfall");

  setInterval(() => {
    if (!running || document.hidden) return;
    axis.setDuration(running.length + performance.now() - running.since, running.clock);
    draw();
  }, 1000);

  load(0).then(chooseFirst);
  return {
    move(step) {
      const index = Math.min(total - 1, Math.max(0, indexOf(chosen) + step));
      scrollTo(index);
      choose(at(index));
    },
    open: () => zoomTo([chosen]),
    escape() { if (axis.isPart()) axis.whole(); else location.assign(sessionStorage.getItem("list") ?? root.dataset.session); },
    fold: (close) => fold(chosen, close),
    scale,
    fit,
    pan: axis.pan,
    async error() {
      const response = await fetch(`${root.dataset.rows}?after=${chosen?.place ?? 0}&limit=0`);
      if (!response.ok) return;
      const { error } = await response.json();
      if (error !== null) await find(error);
    },
    async refresh() { await reload(); await (chosen ? pane.show(chosen.id) : chooseFirst()); },
  };
}
