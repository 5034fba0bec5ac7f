// A long list of which only the rows near the screen are in the page. Rows have one height.
const CHUNK = 60;

export function virtualList(list) {
  let total = Number(list.dataset.total);
  const chunks = new Map();  // number -> its elements
  const asked = new Set();
  let chosen = -1, height = 0;

  const first = [...list.children];
  if (first.length) {
    height = first[0].getBoundingClientRect().height;
    chunks.set(0, first);
  }
  const url = (offset) => `${list.dataset.rows}&offset=${offset}`.replace("?&", "?");

  async function load(number, force = false) {
    if (asked.has(number) || (chunks.has(number) && !force)) return;
    asked.add(number);
    try {
      const response = await fetch(url(number * CHUNK));
      if (!response.ok) return;
      const data = await response.json();
      total = data.total;
      const holder = new DOMParser().parseFromString(data.html, "text/html").body;
      chunks.get(number)?.forEach((row) => row.remove());
      chunks.set(number, [...holder.children].map((row) => document.adoptNode(row)));
    } finally { asked.delete(number); }
    draw();
  }

  function visible() {
    const top = list.getBoundingClientRect().top, margin = 600;
    const from = Math.max(0, Math.floor((-top - margin) / (height || 40)));
    const to = Math.min(total, Math.ceil((innerHeight - top + margin) / (height || 40)));
    return [Math.floor(from / CHUNK), Math.max(0, Math.floor(Math.max(to - 1, 0) / CHUNK))];
  }

  function draw() {
    if (!height && list.firstElementChild) height = list.firstElementChild.getBoundingClientRect().height;
    list.style.height = `${total * height}px`;
    const [from, to] = visible();
    for (const [number, rows] of chunks) {
      if (number < from || number > to) { rows.forEach((row) => row.remove()); if (number) chunks.delete(number); continue; }
      rows.forEach((row, at) => {
        row.style.transform = `translateY(${(number * CHUNK + at) * height}px)`;
        row.classList.toggle("chosen", number * CHUNK + at === chosen);
        if (!row.isConnected) list.append(row);
      });
    }
    for (let number = from; number <= to; number += 1) load(number);
    list.classList.add("drawn");
  }

  const row = () => list.querySelector(`[data-index="${chosen}"]`);
  addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", () => { height = list.firstElementChild?.getBoundingClientRect().height ?? height; draw(); });
  draw();
  return {
    move(step) {
      chosen = Math.min(total - 1, Math.max(0, chosen + step));
      const top = list.getBoundingClientRect().top + chosen * height;
      if (top < 110) scrollBy(0, top - 110);
      else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight);
      draw();
    },
    open() { const target = row()?.getAttribute("href"); if (target) location.assign(target); },
    escape() { chosen = -1; draw(); },
    async refresh() {
      const [from, to] = visible();
      for (let number = from; number <= to; number += 1) await load(number, true);
      document.querySelector(".table > .empty")?.remove();
    },
  };
}
