// The page: its views, and how photos come in. Other modules take from here what they need.

import { showAgents } from "./agents.js";
import "./captions.js";
import { $ } from "./dom.js";
import { dropped } from "./review-folders.js";
import { info, patiently, post, request, ServerError } from "./server.js";
import { photos, retry, subscribe, take } from "./store.js";

export { info, patiently, photos, post, request, retry, ServerError, subscribe, take };

const VIEWS = ["captions", "agents", "review"];

/** The view that the address names; of the agents also the number of a photo. */
function show() {
  const [wanted, id] = location.hash.slice(1).split("/");
  const view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const name of VIEWS) {
    $(name).hidden = name !== view;
    $(name).tabIndex = -1; // it can be gone to, below
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${$(view).getAttribute("aria-label") ?? $(`${view}-title`).textContent} – naic`;
  // Whoever followed a link of the view that is gone goes on in the new one.
  if (document.activeElement?.closest("main section[hidden]")) $(view).focus();
  showAgents(view === "agents", Number(id));
}

/** The server in a few words. */
async function tellAbout() {
  const { model, version, runtime, precision, device } = await info();
  $("about").textContent = `Model ${model} (${runtime}, ${precision}, ${device}), naic ${version}.`;
}

for (const id of ["choose", "camera"]) {
  $(id).onchange = ({ target }) => {
    take(target.files);
    target.value = ""; // the same photo may be chosen again
  };
}

const carriesFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");

// Spreadsheets give a picture beside the text that is copied from them: it is no photo where text
// is written.
const WRITING = "textarea, input:not([type=file], [type=checkbox])";
const carriesText = ({ clipboardData }) => clipboardData.types.includes("text/plain");

document.addEventListener("paste", (event) => {
  if (event.target.matches?.(WRITING) && carriesText(event)) return;
  take(event.clipboardData.files);
});
document.addEventListener("dragover", (event) => {
  if (!carriesFiles(event)) return;
  event.preventDefault();
  document.body.classList.add("over");
});
document.addEventListener("dragleave", ({ relatedTarget }) => {
  if (!relatedTarget) document.body.classList.remove("over");
});
document.addEventListener("drop", (event) => {
  document.body.classList.remove("over");
  if (!carriesFiles(event)) return;
  event.preventDefault();
  dropped(event.dataTransfer).then(take);
});
window.addEventListener("hashchange", show);
show();
tellAbout().catch((error) => ($("about").textContent = error.message));
