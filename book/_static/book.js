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
