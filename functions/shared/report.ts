/** What happened, as one JSON line on standard output. */
export type Report = (event: string, fields: Readonly<Record<string, unknown>>) => void;

/** Writes a line that CloudWatch Logs reads as structured; a bigint is written in decimal. Never payloads, never secrets. */
export const reportLine: Report = (event, fields) => {
  const line = { event, ...fields };
  process.stdout.write(
    `${JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? value.toString() : value))}\n`,
  );
};
