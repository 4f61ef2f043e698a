// Fetches twice over one connection and prints how long the second took.
const url = process.argv[2];
(async () => {
  await (await fetch(url)).text();
  const began = performance.now();
  const text = await (await fetch(url)).text();
  console.log(`node: ${text.trim()}, ${(performance.now() - began).toFixed(1)} ms`);
})();
