// A table that is wider than the window is put into a box that scrolls; with this the box can be reached by keyboard.
new MutationObserver(() => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap:not([tabindex])")) {
    box.tabIndex = 0;
  }
}).observe(document.body, { childList: true, subtree: true });
