"use strict";
for (const box of document.querySelectorAll(".copied")) {
  const button = box.querySelector("button");
  button.hidden = false;
  button.addEventListener("click", async () => {
    const text = box.querySelector("code").textContent.replace(/\n$/, "");
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      getSelection().selectAllChildren(box.querySelector("code"));
      button.textContent = "selected";
    }
    setTimeout(() => { button.textContent = "copy"; }, 1500);
  });
}
for (const choice of document.querySelectorAll("input[name=metric]")) {
  choice.addEventListener("change", () => {
    for (const svg of document.querySelectorAll(".drawing svg")) svg.setAttribute("class", choice.value);
  });
}
const partners = new Map();
for (const part of document.querySelectorAll("[data-line]")) {
  const line = part.dataset.line;
  if (line) partners.set(line, [...(partners.get(line) || []), part]);
}
for (const [, parts] of partners) {
  const mark = (on) => () => { for (const part of parts) part.classList.toggle("linked", on); };
  for (const part of parts) {
    part.addEventListener("mouseenter", mark(true));
    part.addEventListener("mouseleave", mark(false));
    part.addEventListener("focusin", mark(true));
    part.addEventListener("focusout", mark(false));
  }
}
function open() {
  const row = document.getElementById(location.hash.slice(1));
  const folded = row && row.closest("details");
  if (folded && !folded.open) {
    folded.open = true;
    row.scrollIntoView({ block: "center" });
  }
}
addEventListener("hashchange", open);
open();
