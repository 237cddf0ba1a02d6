/** Has the buttons of `group` choose `log` or `linear`, and calls `apply` with it. */
export function chooseScale(group, apply) {
  group.addEventListener("click", ({ target }) => {
    const chosen = target.closest("button");
    if (!chosen) return;
    for (const button of group.children) button.setAttribute("aria-pressed", String(button === chosen));
    apply(chosen.value);
  });
}
