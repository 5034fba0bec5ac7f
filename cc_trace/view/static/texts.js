// Numbers as people read them, as `figures` has them for what the server writes.
export function time(ms) {
  if (ms < 1) return `${ms.toFixed(ms ? 1 : 0)} ms`;
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (Math.round(ms / 100) < 600) return `${(ms / 1000).toFixed(1)} s`;
  const isMinutes = Math.round(ms / 1000) < 3600;
  const [all, large, small] = isMinutes ? [Math.round(ms / 1000), "m", "s"] : [Math.round(ms / 60000), "h", "m"];
  return all % 60 ? `${Math.floor(all / 60)} ${large} ${all % 60} ${small}` : `${all / 60} ${large}`;
}

export const money = (usd) => (usd < 1 ? `$${usd.toFixed(4)}` : `$${usd.toFixed(2)}`);

// A time of day, from the milliseconds since midnight.
export function clock(ms) {
  const seconds = Math.floor(ms / 1000) % 86400;
  return [seconds / 3600, (seconds / 60) % 60, seconds % 60].map((part) => String(Math.floor(part)).padStart(2, "0")).join(":");
}

// A name without what all have in common: claude-opus-4-5-20251101 is opus-4-5, mcp__tickets__search is tickets search.
export function brief(name) {
  const [, server, tool] = name.match(/^mcp__(.+?)__(.+)$/) ?? [];
  return server ? `${server} ${tool}` : name.replace(/^claude-(.*?)(-20\d{6})?$/, "$1");
}

export function node(name, classes, text) {
  const element = document.createElement(name);
  element.className = classes;
  if (text !== undefined) element.textContent = text;
  return element;
}
