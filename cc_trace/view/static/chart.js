// The context chart: the line and the numbers below it are of the mark under the pointer or the keyboard's focus, else
// of the latest request.
export function contextChart() {
  const panels = document.getElementById("session-charts");
  if (!panels) return;

  function tell(mark) {
    const chart = panels.querySelector(".context");
    if (!chart) return;
    const requests = chart.querySelectorAll("[data-counts]");
    const latest = requests[requests.length - 1];
    document.getElementById("told").textContent = mark ? mark.dataset.told : `Latest request: ${latest.dataset.told}`;
    if (mark && !mark.dataset.counts) return;
    const counts = (mark ?? latest).dataset.counts.split(" ");
    chart.closest("figure").querySelectorAll(".count").forEach((count, at) => {
      count.textContent = Number(counts[at]).toLocaleString("en");
    });
  }

  const markOf = (event) => event.target.closest(".context [data-told]");
  for (const name of ["pointerover", "focusin"]) panels.addEventListener(name, (event) => tell(markOf(event)));
  panels.addEventListener("pointerleave", () => tell());
}
