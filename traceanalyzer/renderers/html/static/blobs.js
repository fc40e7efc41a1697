"use strict";
// Data and late scripts that travel inside the page: base64 of a deflate stream, by element id.

function bytesOfBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function inflated(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// The bytes of a blob. Its text leaves the document, which would otherwise hold it twice.
async function readBlob(id) {
  const holder = document.getElementById(id);
  const bytes = await inflated(bytesOfBase64(holder.textContent));
  holder.remove();
  return bytes;
}

async function readJson(id) {
  return JSON.parse(new TextDecoder().decode(await readBlob(id)));
}

// Runs a script that travelled deflated. The policy knows the hash of its inflated text.
async function runLazily(id) {
  const script = document.createElement("script");
  script.textContent = new TextDecoder().decode(await readBlob(id));
  document.head.append(script);
}
