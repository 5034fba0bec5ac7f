// A bar between two columns that can be dragged. The width of the left one is a property of their holder, and is kept.
export function divider(id, holder, property) {
  const handle = document.getElementById(id);
  const known = localStorage.getItem(property);
  if (known && matchMedia("(min-width: 901px)").matches) holder.style.setProperty(property, known);
  handle.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    handle.classList.add("dragged");
    const moved = (each) => {
      const box = holder.getBoundingClientRect();
      holder.style.setProperty(property, `${((each.clientX - box.left) / box.width) * 100}%`);
      dispatchEvent(new Event("resize"));
    };
    handle.addEventListener("pointermove", moved);
    handle.addEventListener("lostpointercapture", () => {
      handle.removeEventListener("pointermove", moved);
      handle.classList.remove("dragged");
      localStorage.setItem(property, holder.style.getPropertyValue(property));
    }, { once: true });
  });
  handle.addEventListener("dblclick", () => {
    holder.style.removeProperty(property);
    localStorage.removeItem(property);
    dispatchEvent(new Event("resize"));
  });
}
