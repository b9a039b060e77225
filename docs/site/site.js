// What the theme's script makes, for people who use a keyboard or a screen reader. A table that is wider than the window is put into a box that
// scrolls; with this the box can be reached by keyboard. The button of each block of code stands in a landmark, of which one a page is enough.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    box.tabIndex = 0;
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav:not([role])")) {
    buttons.setAttribute("role", "none");
  }
}).observe(document.body, { childList: true, subtree: true });
