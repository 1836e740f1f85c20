/* Marks the lines of shown outputs that are sentences: those without two blanks in a row, which part columns. */
for (const line of document.querySelectorAll(".highlight .go")) {
  line.classList.toggle("sentence", !/\S {2,}\S/.test(line.textContent));
}

/* The commands of a console example without its prompts and outputs. */
const commands = (code) => {
  const bare = code.cloneNode(true);
  bare.querySelectorAll(".gp, .go").forEach((part) => part.remove());
  return bare.textContent.replace(/\n\s*\n/g, "\n").trim();
};

/* Copying an example copies what one types; the button asks for this text before it copies the whole. */
document.addEventListener(
  "click",
  ({ target }) => {
    const button = target.closest?.("[data-clipboard-target]");
    const code = button && document.querySelector(button.dataset.clipboardTarget);
    if (code?.querySelector(".gp")) button.dataset.clipboardText = commands(code);
  },
  true,
);

/* What scrolls sideways can be scrolled by keyboard; a copy button is no landmark of the page. */
const access = () => {
  for (const box of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
  document.querySelectorAll("nav.md-code__nav").forEach((nav) => nav.setAttribute("role", "none"));
};
new MutationObserver(access).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", access);
access();
