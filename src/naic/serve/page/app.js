// The page: its views, and how photos come in. Other modules take `photos`, `subscribe` and
// `request` from here.

import { $ } from "./dom.js";
import { post, request, ServerError } from "./server.js";
import { photos, retry, subscribe, take } from "./store.js";

export { photos, post, request, retry, ServerError, subscribe, take };

const VIEWS = ["captions", "agents", "review"];

function show() {
  const wanted = location.hash.slice(1).split("/")[0];
  const view = VIEWS.includes(wanted) ? wanted : VIEWS[0];
  for (const name of VIEWS) {
    $(name).hidden = name !== view;
    const link = document.querySelector(`nav a[href="#${name}"]`);
    if (name === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

window.addEventListener("hashchange", show);
show();

for (const id of ["choose", "camera"]) {
  $(id).onchange = ({ target }) => {
    take(target.files);
    target.value = ""; // the same photo may be chosen again
  };
}
