// The details of a span, beside the waterfall.
import { node } from "./texts.js";

const summary = (section) => section.querySelector("summary").textContent;
const parsed = (html) => new DOMParser().parseFromString(html, "text/html").body.childNodes;

// `wanted` says which span is to be shown when its details have arrived.
export function detailPane(wanted) {
  const pane = document.getElementById("detail");
  let shown = "";

  async function show(id) {
    const response = await fetch(`/spans/${encodeURIComponent(id)}/detail`);
    const html = response.ok ? await response.text() : null;
    if (wanted() !== id || html === shown) return;
    shown = html;
    if (html === null) {
      pane.replaceChildren(node("p", "empty", "This span cannot be shown. It may have been replaced: reload the page."));
      return;
    }
    const sections = () => [...pane.querySelectorAll("details.section")];
    const isSame = pane.firstElementChild?.dataset.span === id, top = pane.scrollTop;
    const opened = new Map(sections().map((section) => [summary(section), section.open]));
    pane.replaceChildren(...parsed(html));
    if (isSame) for (const section of sections()) section.open = opened.get(summary(section)) ?? section.open;
    pane.scrollTop = isSame ? top : 0;
    for (const section of pane.querySelectorAll("details[data-load]")) section.addEventListener("toggle", () => load(section));
  }

  // What is in a section that is asked for when it is opened.
  async function load(section) {
    if (!section.open || section.dataset.loaded) return;
    section.dataset.loaded = "1";
    const response = await fetch(section.dataset.load);
    section.querySelector(".body").replaceChildren(...parsed(await response.text()));
  }

  // In a narrow window the details are below the spans.
  function reveal() {
    if (matchMedia("(max-width: 900px)").matches) document.getElementById("to-row").scrollIntoView({ block: "start" });
  }

  return { show, reveal };
}
