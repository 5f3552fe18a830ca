// What the theme says to a screen reader must hold what it shows.
for (const summary of document.querySelectorAll("summary")) {
  const page = summary.closest("li")?.querySelector("a"); // whose arrow this is
  if (summary.textContent.trim()) summary.removeAttribute("aria-label");
  else if (page) summary.setAttribute("aria-label", `Pages below ${page.textContent}`);
}
for (const button of document.querySelectorAll(".search-button-field[aria-label]")) {
  button.setAttribute("aria-label", button.innerText.replace(/\s+/g, " ").trim());
}
const sidebar = document.querySelector("#pst-primary-sidebar, .bd-sidebar-primary");
sidebar?.setAttribute("role", "region");
sidebar?.setAttribute("aria-label", "Contents of the book");

// A formula or a table that is wider than its line can be moved; others stay as they are.
const mark_wide = () => {
  for (const formula of document.querySelectorAll("span.math > mjx-container")) {
    const room = formula.parentElement.clientWidth + 1;
    const wide = formula.getBoundingClientRect().width > room;
    formula.parentElement.classList.toggle("wide", wide);
  }
  for (const table of document.querySelectorAll(".bd-article table")) {
    if (table.scrollWidth > table.clientWidth) table.tabIndex = 0; // by keys, too
    else table.removeAttribute("tabindex");
  }
};
window.MathJax?.startup?.promise?.then(mark_wide);
addEventListener("load", mark_wide);
addEventListener("resize", mark_wide);
