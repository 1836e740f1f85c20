/* Marks the lines of shown outputs that are sentences: those without two blanks in a row, which part columns. */
for (const line of document.querySelectorAll(".highlight .go")) {
  line.classList.toggle("sentence", !/\S {2,}\S/.test(line.textContent));
}
