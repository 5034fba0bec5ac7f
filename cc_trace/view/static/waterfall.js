// The spans of a turn as a tree and on a time axis. Only the rows near the screen are asked for and in the page.
const CHUNK = 200;
const MIN_PIXELS = 2;
const DAY = 86400000;
// Where clocks have their marks: seconds, minutes, hours.
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400].map((seconds) => seconds * 1000);

export function waterfall() {
  const root = document.getElementById("waterfall"), scroll = document.getElementById("scroll");
  const space = document.getElementById("space"), ticks = document.getElementById("ticks");
  const pane = document.getElementById("detail");
  const range = document.getElementById("range");
  const folded = new Set();
  let brush = null;
  let chunks = new Map(), asked = new Set(), elements = new Map();
  let total = 0, duration = 1, height = 26, chosen = null, from = 0, to = 1, generation = 0, shown = "";

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
      const whole = from === 0 && to === duration;
      total = data.total;
      if (data.duration !== duration) { duration = Math.max(data.duration, 0.001); if (whole || !chunks.size) { from = 0; to = duration; } }
      chunks.set(number, data.rows);
    } finally { if (mine === generation) asked.delete(number); }
    draw();
  }

  function draw() {
    space.style.height = `${total * height}px`;
    const first = Math.max(0, Math.floor(scroll.scrollTop / height) - 10);
    const last = Math.min(total, Math.ceil((scroll.scrollTop + scroll.clientHeight) / height) + 10);
    const wanted = new Map();
    for (let index = first; index < last; index += 1) {
      const row = at(index);
      if (row) wanted.set(row.id, [row, index]);
      else load(Math.floor(index / CHUNK));
    }
    for (const [id, element] of elements) if (!wanted.has(id)) { element.remove(); elements.delete(id); }
    for (const [id, [row, index]] of wanted) {
      let element = elements.get(id);
      const text = JSON.stringify(row) + from + "," + to;
      if (!element || element.made !== text) {
        const fresh = made(row);
        fresh.made = text;
        if (element) element.replaceWith(fresh); else space.append(fresh);
        elements.set(id, fresh);
        element = fresh;
      }
      element.style.transform = `translateY(${index * height}px)`;
      element.classList.toggle("chosen", id === chosen?.id);
    }
    axis();
    root.dataset.ready = "1";
  }

  function node(name, classes, text) {
    const element = document.createElement(name);
    element.className = classes;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function made(row) {
    const element = node("div", `span ${row.kind} ${row.status}${row.hot ? " hot" : ""}`);
    element.dataset.id = row.id;
    const tree = node("div", "tree");
    const indent = node("span", "indent");
    indent.style.width = `${Math.min(row.depth, 12) * (innerWidth > 560 ? 14 : 6)}px`;
    const fold = node("button", "fold", row.below ? (folded.has(row.place) ? "▸" : "▾") : "");
    fold.type = "button";
    fold.tabIndex = -1;
    if (row.below) fold.title = `${row.below} children`;
    tree.append(indent, fold, node("span", `dot ${row.kind}`), node("b", "name", row.kind === "generation" ? brief(row.name) : row.name), node("span", "label", row.label));
    tree.title = row.label ? `${row.name}: ${row.label}` : row.name;
    const cost = row.total ?? row.cost;
    const spent = node("span", "cost", cost ? money(cost) : "");
    if (cost && row.cost && cost !== row.cost) spent.title = `${money(row.cost)} for the request itself, ${money(cost)} with agents`;
    tree.append(spent);
    const track = node("div", "track");
    if (row.lane) put(track, "lane", row.lane[0], row.lane[1]);
    if (row.start !== null) {
      const open = row.end === null && root.dataset.running === "1";
      const end = row.end ?? (open ? duration : row.start);
      const bar = put(track, `box ${row.kind}${open ? " open" : ""}`, row.start, end);
      bar.title = `${row.name} · ${time(end - row.start)} · from ${time(row.start)}`;
      if (row.first !== null && row.first > row.start) put(track, "box first", row.start, Math.min(row.first, end));
      for (const [kind, begin, stop] of row.waits) put(track, `wait ${kind}`, begin, stop).title = `${kind}: waited ${time(stop - begin)}`;
      const told = node("span", "took", time(end - row.start));
      const drawn = Math.max(end, ...row.waits.map((wait) => wait[2]));
      const left = ((row.start - from) / (to - from)) * 100, right = ((drawn - from) / (to - from)) * 100;
      // After the bar, else before it; a bar that leaves no room has it inside.
      if (right < 88) told.style.left = `calc(${Math.max(0, right)}% + 5px)`;
      else if (left > 12) told.style.right = `calc(${Math.max(0, 100 - left)}% + 5px)`;
      else told.classList.add("inside");
      track.append(told);
    }
    element.append(tree, track);
    return element;
  }

  // A box lies where its times say; one too short to be seen is as wide as can be seen.
  function put(track, classes, begin, end) {
    const box = node("i", classes);
    const width = to - from;
    box.style.left = `${((begin - from) / width) * 100}%`;
    box.style.width = `max(${MIN_PIXELS}px, ${(Math.max(0, end - begin) / width) * 100}%)`;
    track.append(box);
    return box;
  }

  function axis() {
    const rough = (to - from) / 6, power = 10 ** Math.floor(Math.log10(rough));
    const step = rough < 1000 ? [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough)
      : STEPS.find((size) => size >= rough) ?? Math.ceil(rough / DAY) * DAY;
    const marks = [];
    for (let mark = Math.ceil(from / step) * step; mark < to - (to - from) * 0.09; mark += step) {
      const tick = node("span", "tick", time(mark));
      tick.style.left = `${((mark - from) / (to - from)) * 100}%`;
      marks.push(tick);
    }
    ticks.replaceChildren(...marks, ...(brush ? [brush] : []));
    const part = from > 0 || to < duration;
    root.classList.toggle("zoomed", part);
    range.hidden = !part;
    range.firstElementChild.style.left = `${(from / duration) * 100}%`;
    range.firstElementChild.style.width = `${((to - from) / duration) * 100}%`;
  }

  async function choose(row, { push = true } = {}) {
    if (!row) return;
    chosen = row;
    draw();
    if (push) history.replaceState(null, "", `?span=${row.id}`);
    await show();
  }

  // In a narrow window the details are below the spans.
  function showPane() {
    if (matchMedia("(max-width: 900px)").matches) pane.scrollIntoView({ block: "start" });
  }

  async function show() {
    const id = chosen.id;
    const response = await fetch(`/spans/${encodeURIComponent(id)}/detail`);
    if (chosen.id !== id) return;
    if (!response.ok) {
      pane.replaceChildren(node("p", "empty", "This span cannot be shown. It may have been replaced: reload the page."));
      return;
    }
    const html = await response.text();
    if (html === shown) return;
    shown = html;
    const body = new DOMParser().parseFromString(html, "text/html").body;
    const opened = new Map([...pane.querySelectorAll("details.section")].map((each) => [each.querySelector("summary").textContent, each.open]));
    const same = pane.firstElementChild?.dataset.span === id, top = pane.scrollTop;
    pane.replaceChildren(...body.childNodes);
    if (same) {
      for (const each of pane.querySelectorAll("details.section")) each.open = opened.get(each.querySelector("summary").textContent) ?? each.open;
      pane.scrollTop = top;
    } else pane.scrollTop = 0;
    for (const each of pane.querySelectorAll("details[data-load]")) each.addEventListener("toggle", async () => {
      if (!each.open || each.dataset.loaded) return;
      each.dataset.loaded = "1";
      const loaded = await fetch(each.dataset.load);
      const parsed = new DOMParser().parseFromString(await loaded.text(), "text/html").body;
      each.querySelector(".body").replaceChildren(...parsed.childNodes);
    });
  }

  function index() {
    for (const [number, rows] of chunks) {
      const place = rows.findIndex((row) => row.id === chosen?.id);
      if (place >= 0) return number * CHUNK + place;
    }
    return -1;
  }

  function reach(place) {
    if (place * height < scroll.scrollTop) scroll.scrollTop = place * height;
    else if ((place + 1) * height > scroll.scrollTop + scroll.clientHeight) scroll.scrollTop = (place + 1) * height - scroll.clientHeight;
  }

  async function reload() {
    generation += 1;
    asked = new Set();
    const first = Math.floor(Math.max(0, scroll.scrollTop / height - 10) / CHUNK);
    const old = chunks;
    chunks = new Map();
    await load(first);
    if (!chunks.size) chunks = old;
    draw();
  }

  function toggle(row, close) {
    if (!row?.below || folded.has(row.place) === close) return;
    if (close) folded.add(row.place); else folded.delete(row.place);
    reload();
  }

  function zoom(row) {
    if (row?.start === null || row === undefined || row === null) return;
    const end = Math.max(row.end ?? row.start, row.start + 0.001), margin = (end - row.start) * 0.02;
    look(row.start - margin, end + margin);
  }

  // Show a part of the time; what lies beyond the turn is cut off.
  function look(begin, end) {
    const size = Math.min(duration, Math.max(0.01, end - begin));
    from = Math.min(Math.max(0, begin), duration - size);
    to = from + size;
    draw();
  }

  const whole = () => look(0, duration);

  // Zoom about the selected span; the turn itself has no place of its own.
  function scaleChosen(factor) {
    const middle = chosen?.place && chosen.start !== null ? (chosen.start + (chosen.end ?? chosen.start)) / 2 : (from + to) / 2;
    const size = (to - from) * factor;
    look(middle - size / 2, middle + size / 2);
  }

  function scale(factor, share = 0.5) {
    const middle = from + (to - from) * share, size = (to - from) * factor;
    look(middle - size * share, middle + size * (1 - share));
  }

  const pan = (share) => look(from + (to - from) * share, to + (to - from) * share);

  // Drag over the axis to zoom to what was dragged over, and the strip at the bottom to move what is shown.
  function drags(element, begin, move, end) {
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      const box = element.getBoundingClientRect(), share = (each) => Math.min(1, Math.max(0, (each.clientX - box.left) / box.width));
      const start = share(event);
      element.setPointerCapture(event.pointerId);
      begin(start);
      const moved = (each) => move(start, share(each));
      const ended = (each) => { element.removeEventListener("pointermove", moved); end(start, share(each)); };
      element.addEventListener("pointermove", moved);
      element.addEventListener("pointerup", ended, { once: true });
    });
  }
  drags(ticks, () => { brush = node("i", "brush"); }, (start, now) => {
    brush.style.left = `${Math.min(start, now) * 100}%`;
    brush.style.width = `${Math.abs(now - start) * 100}%`;
    ticks.append(brush);
  }, (start, now) => {
    brush = null;
    const width = to - from, begin = from + Math.min(start, now) * width, end = from + Math.max(start, now) * width;
    if (Math.abs(now - start) > 0.005) look(begin, end); else draw();
  });
  let grabbed = 0;
  drags(range, (start) => {
    const middle = (from + to) / 2 / duration, half = (to - from) / 2 / duration;
    grabbed = Math.abs(start - middle) <= half ? start - middle : 0;
  }, (_, now) => {
    const middle = (now - grabbed) * duration, half = (to - from) / 2;
    look(middle - half, middle + half);
  }, () => {});
  document.getElementById("zoom-in").addEventListener("click", () => scaleChosen(0.5));
  document.getElementById("zoom-out").addEventListener("click", () => scaleChosen(2));
  document.getElementById("zoom-all").addEventListener("click", whole);

  async function goTo(place, id) {
    scroll.scrollTop = Math.max(0, place * height - scroll.clientHeight / 3);
    await load(Math.floor(place / CHUNK));
    const row = at(place);
    if (row && (!id || row.id === id)) await choose(row);
  }

  scroll.addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", draw);
  space.addEventListener("click", (event) => {
    const element = event.target.closest(".span");
    if (!element) return;
    const row = [...chunks.values()].flat().find((each) => each.id === element.dataset.id);
    if (event.target.closest(".fold")) toggle(row, !folded.has(row.place));
    else choose(row).then(showPane);
  });
  space.addEventListener("dblclick", () => zoom(chosen));
  scroll.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const box = ticks.getBoundingClientRect(), share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
    if (event.shiftKey && !event.ctrlKey) pan((event.deltaY || event.deltaX) / 1000);
    else scale(event.deltaY > 0 ? 1.25 : 0.8, share);
  }, { passive: false });
  document.getElementById("turn-head").addEventListener("click", (event) => {
    const link = event.target.closest("[data-place]");
    if (!link) return;
    event.preventDefault();
    root.focus({ preventScroll: true });  // so that Enter is for the span, not for the link again
    find(Number(link.dataset.place)).then(showPane);
  });

  // Go to a row that may be folded away.
  async function find(place) {
    if (folded.size) {
      folded.clear();
      generation += 1;
      chunks = new Map();
      asked = new Set();
      await load(0);
    }
    await goTo(place);
    if (chosen?.start !== null && (chosen.start > to || (chosen.end ?? chosen.start) < from)) whole();
  }

  // What the address asks for, or the turn. A change that comes before the first rows takes their place: then it is asked
  // for again.
  async function chooseFirst() {
    const place = Number(root.dataset.place);
    if (place > 0) await goTo(place, root.dataset.span).then(showPane);
    else if (at(0)) await choose(at(0), { push: false });
  }

  load(0).then(chooseFirst);
  return {
    move(step) {
      const place = Math.min(total - 1, Math.max(0, index() + step));
      reach(place);
      choose(at(place));
    },
    open: () => zoom(chosen),
    escape() { if (from > 0 || to < duration) whole(); else location.assign(root.dataset.session); },
    fold: (close) => toggle(chosen, close),
    scale: scaleChosen,
    pan,
    async error() {
      const response = await fetch(`${root.dataset.rows}?after=${chosen?.place ?? 0}&limit=0`);
      if (!response.ok) return;
      const { error } = await response.json();
      if (error !== null) await find(error);
    },
    async refresh() { await reload(); await (chosen ? show() : chooseFirst()); },
  };
}

// A model's name without what all have in common: claude-opus-4-5-20251101 is opus-4-5.
const brief = (name) => name.replace(/^claude-/, "").replace(/-20\d{6}$/, "");

export function time(ms) {
  if (ms < 1) return `${ms.toFixed(ms ? 1 : 0)} ms`;
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (Math.round(ms / 100) < 600) return `${(ms / 1000).toFixed(1)} s`;
  const [all, large, small] = Math.round(ms / 1000) < 3600 ? [Math.round(ms / 1000), "m", "s"] : [Math.round(ms / 60000), "h", "m"];
  return all % 60 ? `${Math.floor(all / 60)} ${large} ${all % 60} ${small}` : `${all / 60} ${large}`;
}

export function money(usd) { return usd < 1 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`; }
