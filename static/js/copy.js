// Buttons that copy the code beside them, now and in what is swapped in later.

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-role=copy]");
  if (!button) return;
  await copy(button.closest("[data-role=snippet]").querySelector("pre"));
  const label = button.querySelector("span");
  label.textContent = "Copied";
  setTimeout(() => { label.textContent = "Copy"; }, 1500);
});

/** The clipboard is there only on HTTPS and localhost; elsewhere the text is selected and copied as if by hand. */
async function copy(pre) {
  if (navigator.clipboard) return navigator.clipboard.writeText(pre.textContent);
  getSelection().selectAllChildren(pre);
  document.execCommand("copy");
}
