// A line that says how far things are: rewritten in place on a terminal, else a plain one every few seconds.

const TERMINAL_EVERY_MS = 500;
const PLAIN_EVERY_MS = 3_000;

/**
 * Shows what `describe` returns until the returned function is called. Standard output only; the last line stays.
 */
export function showProgress(describe: () => Promise<string>): () => Promise<void> {
  const inPlace = process.stdout.isTTY;
  let showing = Promise.resolve();
  const show = async () => {
    const text = await describe();
    process.stdout.write(inPlace ? `\r\u001B[K${text.slice(0, process.stdout.columns - 1)}` : `${text}\n`);
  };
  const timer = setInterval(
    () => {
      showing = showing.then(show);
    },
    inPlace ? TERMINAL_EVERY_MS : PLAIN_EVERY_MS,
  );
  return async () => {
    clearInterval(timer);
    await showing.then(show);
    if (inPlace) process.stdout.write('\n');
  };
}
