// The service worker: the page's files from the network where there is one, else as they were last.
// The graph is not here: worker.js keeps it.

const FILES = [
  "./",
  "index.html",
  "style.css",
  "app.js",
  "worker.js",
  "resize.js",
  "sentence.js",
  "page.json",
  "runtime/ort.wasm.bundle.min.mjs",
  "runtime/ort-wasm-simd-threaded.wasm",
];

oninstall = (event) => {
  event.waitUntil(caches.open("naic").then((kept) => kept.addAll(FILES)));
};

onfetch = (event) => {
  const name = event.request.url.slice(registration.scope.length) || "./";
  if (FILES.includes(name)) event.respondWith(newest(event.request));
};

async function newest(request) {
  const kept = await caches.open("naic");
  try {
    const answer = await fetch(request);
    if (answer.ok) await kept.put(request, answer.clone());
    return answer;
  } catch {
    return (await kept.match(request)) ?? Response.error();
  }
}
