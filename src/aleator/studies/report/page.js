document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
  const head = button.parentElement, body = head.closest("table").tBodies[0], at = head.cellIndex;
  const was = head.getAttribute("aria-sort"), numeric = head.classList.contains("num");
  const sign = (was ? was === "descending" : !numeric) ? 1 : -1;
  const key = (row) => parseFloat(row.cells[at].dataset.value);
  const order = (a, b) => {
    const x = key(a), y = key(b);
    if (isNaN(x) || isNaN(y)) return isNaN(x) && isNaN(y)
      ? sign * a.cells[at].textContent.localeCompare(b.cells[at].textContent, undefined, { numeric: true })
      : isNaN(x) - isNaN(y);
    return sign * (x - y);
  };
  for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  body.append(...[...body.rows].sort(order));
}));
