// What the theme says to a screen reader must hold what it shows.
for (const summary of document.querySelectorAll("summary[aria-label]")) {
  summary.removeAttribute("aria-label");
}
for (const button of document.querySelectorAll(".search-button-field[aria-label]")) {
  button.setAttribute("aria-label", button.innerText.replace(/\s+/g, " ").trim());
}
const sidebar = document.querySelector("#pst-primary-sidebar, .bd-sidebar-primary");
sidebar?.setAttribute("role", "region");
sidebar?.setAttribute("aria-label", "Contents of the book");

// A formula within a line that is wider than the line moves sideways in a box of its own.
const mark_wide_formulas = () => {
  for (const formula of document.querySelectorAll(".bd-article span.math")) {
    formula.classList.remove("wide");
    const room = formula.closest("p, li, td, th, div").clientWidth;
    formula.classList.toggle("wide", formula.getBoundingClientRect().width > room);
  }
};
window.MathJax?.startup?.promise?.then(mark_wide_formulas);
addEventListener("resize", mark_wide_formulas);
