// The view of all captions: a card for each photo, and what is told while they come.

import { $, button, copyButton, make, percent, sureness } from "./dom.js";
import { photos, retry, subscribe } from "./store.js";

const FEW = 3; // captions that are read out one by one
const cards = new Map(); // of photos
let news = []; // captions that have not been read out yet

subscribe((changed) => {
  const added = changed.filter((photo) => !cards.has(photo)).map(addCard);
  $("photos").prepend(...added);
  for (const photo of changed) {
    showCard(photo);
    if (photo.status !== "waiting") tellLater(photo);
  }
  showProgress();
});

function addCard(photo) {
  const image = make("img", { alt: "", src: photo.url, loading: "lazy", decoding: "async" });
  const picture = make("div", { className: "picture" }, image);
  image.onerror = () => picture.replaceChildren("This browser cannot show it");
  const words = make("div", { className: "words" });
  const card = make("li", {}, picture, words);
  cards.set(photo, { card, image, words });
  return card;
}

function showCard(photo) {
  const { card, image, words } = cards.get(photo);
  const name = make("p", { className: "name quiet" }, make("bdi", {}, photo.name));
  card.setAttribute("aria-busy", photo.status === "waiting");
  card.className = photo.status;
  if (photo.status === "waiting") {
    words.replaceChildren(make("p", { className: "caption quiet" }, "…"), name);
  } else if (photo.status === "failed") {
    const again = button("Try again", "small", () => retry(photo));
    again.setAttribute("aria-label", `Try again: ${photo.name}`);
    const why = make("p", { className: "caption error" }, `No caption. ${photo.error}`);
    words.replaceChildren(why, name, make("p", { className: "ways" }, again));
  } else {
    image.alt = photo.result.caption;
    words.replaceChildren(...captioned(photo, name));
  }
}

function captioned(photo, name) {
  const { result } = photo;
  const share = make("span", { className: "share", "aria-hidden": "true" }, make("span"));
  share.firstChild.style.inlineSize = `${100 * result.confidence}%`;
  const sure = make("p", { className: "sure" }, share, sureness(result));
  const copy = copyButton(() => result.caption);
  copy.setAttribute("aria-label", `Copy: ${result.caption}`);
  const agents = make("a", { className: "button small", href: `#agents/${photo.id}` }, "Agents");
  agents.setAttribute("aria-label", `Agents of: ${result.caption}`);
  const parts = [make("p", { className: "caption" }, result.caption || "(no words)"), sure, name];
  const others = result.alternatives.filter(({ text }) => text !== result.caption);
  if (others.length) parts.push(otherCaptions(others));
  return [...parts, make("p", { className: "ways" }, copy, agents)];
}

function otherCaptions(others) {
  const rows = others.map(({ text, confidence }) =>
    make("li", {}, text, " ", make("span", { className: "quiet number" }, percent(confidence))),
  );
  return make("details", {}, make("summary", {}, "Other captions"), make("ul", {}, ...rows));
}

function showProgress() {
  const waiting = photos.filter(({ status }) => status === "waiting").length;
  $("welcome").classList.toggle("away", photos.length > 0);
  $("progress").hidden = waiting === 0;
  const bar = $("progress").querySelector("progress");
  [bar.max, bar.value] = [photos.length, photos.length - waiting];
  $("count").textContent = `${photos.length - waiting} of ${photos.length} photos`;
}

/** Read out captions as they come: a few as they are, many as their number. */
function tellLater(photo) {
  if (!news.length) setTimeout(tellNews, 400);
  news.push(photo);
}

function tellNews() {
  const failed = news.filter(({ status }) => status === "failed").length;
  if (news.length <= FEW) {
    $("said").textContent = news
      .map(
        ({ name, result, error }) => `${name}: ${error ? `no caption. ${error}` : result.caption}.`,
      )
      .join(" ");
  } else {
    const more = failed ? `, ${failed} have none` : "";
    $("said").textContent = `${news.length - failed} captions${more}.`;
  }
  news = [];
}
