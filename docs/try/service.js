/* Keeps the files of the page, so that it opens without a network and a second visit fetches nothing. */

const BUILD = { cache: "", files: [] }; // filled by build.py: the name of this build's cache, and what it holds

self.addEventListener("install", (event) => event.waitUntil(keep()));
self.addEventListener("activate", (event) => event.waitUntil(take()));
self.addEventListener("fetch", (event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(self.registration.scope)) event.respondWith(answer(event.request));
});

async function keep() {
  const cache = await self.caches.open(BUILD.cache);
  // A name with a hash or a version has one content: the copy that the page itself has just fetched will do.
  const request = ({ name, fixed }) => new Request(name, { cache: fixed ? "force-cache" : "no-cache" });
  await cache.addAll(BUILD.files.map(request));
}

/** Removes the files of older builds, and answers the page that is open. */
async function take() {
  const names = await self.caches.keys();
  const old = names.filter((name) => name.startsWith("archcli-try-") && name !== BUILD.cache);
  await Promise.all(old.map((name) => self.caches.delete(name)));
  await self.clients.claim();
}

async function answer(request) {
  const cache = await self.caches.open(BUILD.cache);
  const path = request.url.replace(/[?#].*$/, "").replace(/\/index\.html$/, "/");
  return (await cache.match(path)) ?? fetch(request);
}
