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

// A formula that is wider than its line can be moved; all others stay as they are.
const mark_wide_formulas = () => {
  for (const formula of document.querySelectorAll("span.math > mjx-container")) {
    const room = formula.parentElement.clientWidth + 1;
    const wide = formula.getBoundingClientRect().width > room;
    formula.parentElement.classList.toggle("wide", wide);
  }
};
window.MathJax?.startup?.promise?.then(mark_wide_formulas);
addEventListener("resize", mark_wide_formulas);
