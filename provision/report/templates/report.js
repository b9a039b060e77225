// Filters "All checks" and moves between what does not pass. The page says everything without it.
(() => {
  "use strict";
  const form = document.querySelector(".filter");
  const find = document.getElementById("find");
  const shown = document.getElementById("shown");
  const rows = [...document.querySelectorAll("table.checks tbody tr")];
  const issues = [...document.querySelectorAll(".issue > summary")];
  const texts = new Map(rows.map((row) => [row, row.textContent.toLowerCase()]));
  const off = new Set();

  const apply = () => {
    const words = find.value.trim().toLowerCase();
    let count = 0;
    for (const row of rows) {
      row.hidden = off.has(row.dataset.outcome) || !texts.get(row).includes(words);
      count += row.hidden ? 0 : 1;
    }
    shown.textContent = `${count} of ${rows.length} shown`;
  };
  const step = (by) => {
    if (issues.length === 0) return;
    const at = issues.indexOf(document.activeElement);
    const next = at < 0 ? (by > 0 ? 0 : issues.length - 1) : (at + by + issues.length) % issues.length;
    issues[next].focus();
    issues[next].scrollIntoView({ block: "center" });
  };
  // A link to a host whose checks are folded away unfolds them.
  const unfold = () => {
    const target = /^#host-\d+$/.test(location.hash) ? document.querySelector(location.hash) : null;
    if (target) target.open = true;
  };

  for (const button of form.querySelectorAll("button")) {
    button.addEventListener("click", () => {
      const outcome = button.dataset.toggle;
      if (!off.delete(outcome)) off.add(outcome);
      button.setAttribute("aria-pressed", String(!off.has(outcome)));
      apply();
    });
  }
  form.addEventListener("submit", (event) => event.preventDefault());
  find.addEventListener("input", apply);
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === find) {
      if (event.key === "Escape") { find.value = ""; apply(); find.blur(); }
      return;
    }
    if (event.key === "/") { event.preventDefault(); find.focus(); }
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
  });
  // On paper nothing can be unfolded later.
  let folded = [];
  addEventListener("beforeprint", () => {
    folded = [...document.querySelectorAll("details.issue:not([open])")];
    for (const each of folded) each.open = true;
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
  addEventListener("hashchange", unfold);
  unfold();
  form.hidden = rows.length === 0;
  apply();
})();
