"use strict";
// The page is whole without this: it adds a switch for the colours, tables that sort, and contents that fold on a phone.
(() => {
  const root = document.documentElement;
  const key = "leeway-theme";
  const button = document.getElementById("theme");
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => { try { return localStorage.getItem(key); } catch { return null; } };
  const dark = () => (root.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const show = () => { button.textContent = dark() ? "Light" : "Dark"; };
  const asked = new URLSearchParams(location.search).get("theme") ?? stored();
  if (asked === "light" || asked === "dark") root.dataset.theme = asked;
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem(key, root.dataset.theme); } catch { /* the page is a file without storage */ }
    show();
  });
  system.addEventListener("change", show);
  show();

  if (matchMedia("(max-width: 62rem)").matches) document.querySelector("nav details").open = false;

  const number = (text) => {
    const found = text.replace("∞", "Infinity").match(/^\s*(-?(?:[\d.]+(?:e[-+]?\d+)?|Infinity))/i);
    return found ? Number(found[1]) : NaN;
  };
  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (Number.isNaN(x) !== Number.isNaN(y)) return Number.isNaN(x) ? 1 : -1;
    return Number.isNaN(x) ? a.localeCompare(b) : x - y;
  };
  for (const table of document.querySelectorAll("table.sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const sorter = document.createElement("button");
      sorter.type = "button";
      sorter.title = "Sort by this column";
      sorter.append(...head.childNodes);
      head.append(sorter);
      sorter.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const text = (row) => row.cells[column].textContent.trim();
        const rows = [...table.tBodies[0].rows].sort((a, b) => compare(text(a), text(b)) * (down ? -1 : 1));
        table.tBodies[0].append(...rows);
      });
    });
  }

  addEventListener("beforeprint", () => { for (const each of document.querySelectorAll("details")) each.open = true; });
})();
