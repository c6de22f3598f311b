// The page: takes photos by drop, paste, choice or camera, and shows what the worker says of them.

const $ = (id) => document.getElementById(id);
const status = $("status");
const bar = $("download");
const waiting = new Map(); // number of a photo: its place in the list
let taken = 0;
let ready = false;
let broken = false;

// A worker that is made of a blob inherits this page's Content-Security-Policy; one that comes from
// a file would have none.
const address = new URL("worker.js", document.baseURI).href;
const start = new Blob([`import ${JSON.stringify(address)};`], { type: "text/javascript" });
const worker = new Worker(URL.createObjectURL(start), { type: "module" });
status.textContent = "Loading the model …";

worker.onmessage = ({ data }) => {
  if (data.progress !== undefined) return showProgress(data.progress);
  if (data.broken) return showBroken(data.broken);
  if (data.ready) {
    ready = true;
    navigator.serviceWorker?.register("offline.js").catch(() => {}); // then it works offline
  } else {
    const item = waiting.get(data.id);
    waiting.delete(data.id);
    if (data.error) showError(item, data.error);
    else showCaption(item, data.caption);
  }
  showState();
};
worker.onerror = () => showBroken("the page's own files cannot be loaded");

function showProgress(share) {
  bar.hidden = share === 1;
  bar.value = share;
  status.textContent = share === 1 ? "Starting the model …" : "Downloading the model, once …";
}

function showState() {
  if (!ready) return;
  bar.hidden = true;
  status.textContent = waiting.size ? "Looking …" : "Ready.";
}

function showBroken(why) {
  broken = true;
  bar.hidden = true;
  status.textContent = `No captions: ${why}.`;
  status.classList.add("error");
  for (const item of waiting.values()) showError(item, "there is no model");
  waiting.clear();
}

function take(files) {
  const items = files.map((file) => {
    const item = $("photo").content.firstElementChild.cloneNode(true);
    const image = item.querySelector("img");
    image.src = URL.createObjectURL(file);
    image.onload = () => URL.revokeObjectURL(image.src);
    image.onerror = () => image.remove();
    item.querySelector(".name").textContent = file.name;
    if (broken) {
      showError(item, "there is no model");
    } else {
      waiting.set(++taken, item);
      worker.postMessage({ id: taken, photo: file });
    }
    return item;
  });
  $("photos").prepend(...items);
  showState();
}

function showCaption(item, { text, confidence }) {
  item.querySelector(".caption").textContent = text;
  const image = item.querySelector("img");
  if (image) image.alt = text;
  item.querySelector(".sure").textContent = `${Math.round(confidence * 100)} % sure`;
  item.dataset.confidence = confidence;
  const button = item.querySelector("button");
  button.hidden = !navigator.clipboard; // there is none where the page is not secure
  button.setAttribute("aria-label", `Copy: ${text}`);
  button.onclick = () => copy(button, text);
  item.removeAttribute("aria-busy");
}

function showError(item, why) {
  item.querySelector(".caption").textContent = `No caption: ${why}.`;
  item.querySelector(".caption").classList.add("error");
  item.removeAttribute("aria-busy");
}

async function copy(button, text) {
  await navigator.clipboard.writeText(text);
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

for (const id of ["choose", "camera"]) {
  $(id).onchange = ({ target }) => {
    take([...target.files]);
    target.value = ""; // the same photo may be chosen again
  };
}
document.onpaste = ({ clipboardData }) => take([...clipboardData.files]);
document.ondragover = (event) => {
  event.preventDefault();
  document.body.classList.add("over");
};
document.ondragleave = ({ relatedTarget }) => {
  if (!relatedTarget) document.body.classList.remove("over");
};
document.ondrop = (event) => {
  event.preventDefault();
  document.body.classList.remove("over");
  take([...event.dataTransfer.files]);
};
