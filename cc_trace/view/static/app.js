// What all pages share: the keyboard, following what changes, and the parts of each page.
import { contextChart } from "./chart.js";
import { virtualList } from "./list.js";
import { waterfall } from "./waterfall.js";

const page = document.body.dataset.page;
const help = document.getElementById("help");
const search = document.getElementById("search");
document.getElementById("help-button").addEventListener("click", () => help.showModal());

const list = document.getElementById("list");
const view = list ? virtualList(list) : document.getElementById("waterfall") ? waterfall() : rowsOf(".turn");

// Rows that are all in the page: turns of a session, hits of a search.
function rowsOf(selector) {
  const chosen = () => document.querySelector(`${selector}.chosen`);
  return {
    move(step) {
      const rows = [...document.querySelectorAll({ search: ".hit", spans: "a.row" }[page] ?? selector)];
      const at = rows.findIndex((row) => row.classList.contains("chosen"));
      const next = rows[Math.min(rows.length - 1, Math.max(0, at + step))];
      rows[at]?.classList.remove("chosen");
      next?.classList.add("chosen");
      next?.scrollIntoView({ block: "nearest" });
    },
    open() {
      const row = document.querySelector(".chosen");
      const target = row?.dataset.href ?? row?.getAttribute("href");
      if (target) location.assign(target);
    },
    escape: () => page !== "session" || location.assign("/"),
    refresh: refreshPage,
    chosen,
  };
}

// Fetch the page again and put in the parts that have an id: what the user chose and scrolled to stays.
async function refreshPage() {
  const response = await fetch(location.href);
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const at = [...document.querySelectorAll(".turn")].findIndex((row) => row.classList.contains("chosen"));
  for (const id of ["sums", "session-head", "session-charts", "turns", "turn-head", "insights"]) {
    const old = document.getElementById(id), now = fresh.getElementById(id);
    if (old && now && old.innerHTML !== now.innerHTML) old.replaceChildren(...now.childNodes);
  }
  document.querySelectorAll(".turn")[at]?.classList.add("chosen");
  document.body.dataset.refreshed = String(Number(document.body.dataset.refreshed ?? 0) + 1);
}

// A form of filters needs no button: what is chosen is applied at once, what is typed with Enter.
for (const form of document.querySelectorAll("form[data-auto]")) {
  form.querySelector("button").hidden = true;
  // What is empty has no place in the address.
  const apply = () => {
    const asked = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value && (name !== "sort" || value !== "recent")));
    const query = asked.toString();
    location.assign(form.getAttribute("action") + (query ? `?${query}` : ""));
  };
  form.addEventListener("change", (event) => { if (event.target.type !== "search") apply(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); apply(); });
}

// Where Esc leads from a turn: the list from which it was opened, if it was one.
if (["spans", "search"].includes(page)) sessionStorage.setItem("list", location.href);
else if (page !== "turn") sessionStorage.removeItem("list");

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
});

function follow() {
  const live = document.body.dataset.live;
  if (!live) return;
  const events = new EventSource(`/events?session=${encodeURIComponent(live)}&seen=${document.body.dataset.seen}`);
  let busy = false, again = false;
  const changed = async () => {
    if (busy) { again = true; return; }
    busy = true;
    try {
      do { again = false; await Promise.all([refreshPage(), view.refresh === refreshPage ? null : view.refresh()]); } while (again);
    } catch { /* the server has gone, or is about to answer again */ } finally { busy = false; }
  };
  events.addEventListener("changed", changed);
  events.addEventListener("progress", (event) => {
    const { done, total, complete } = JSON.parse(event.data);
    const progress = document.getElementById("progress");
    progress.hidden = complete;
    progress.textContent = `reading ${done} of ${total} sessions`;
  });
  let lost = false;
  const told = document.getElementById("lost");
  events.addEventListener("error", () => { lost = true; told.hidden = false; });
  events.addEventListener("open", () => { if (lost) { lost = false; told.hidden = true; changed(); } });
  window.addEventListener("pagehide", () => events.close());
}

const keys = {
  "/": () => search.focus(),
  "?": () => help.showModal(),
  j: () => view.move(1),
  k: () => view.move(-1),
  Enter: () => view.open(),
  Escape: () => view.escape(),
  ArrowLeft: () => view.fold?.(true),
  ArrowRight: () => view.fold?.(false),
  "+": () => view.scale?.(0.5),
  "=": () => view.scale?.(0.5),
  "-": () => view.scale?.(2),
  ",": () => view.pan?.(-0.4),
  ".": () => view.pan?.(0.4),
  e: () => view.error?.(),
  f: () => view.fit?.(),
  "[": () => document.getElementById("previous")?.click(),
  "]": () => document.getElementById("next")?.click(),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.closest("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const act = keys[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});
contextChart();
follow();
