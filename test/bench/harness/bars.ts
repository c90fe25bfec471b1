// A bar chart as SVG, by hand: a few lines, no library, the same bytes for the same figures.

import { figure } from './stats.ts';

/** One bar; `min` and `max` draw its spread. */
export interface Bar {
  readonly label: string;
  readonly value: number;
  readonly min?: number;
  readonly max?: number;
  /** Ours stand out. */
  readonly strong?: boolean;
}

const LABEL = 300;
const WIDTH = 460;
const ROW = 26;
const TOP = 46;

const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

/** Horizontal bars from zero, longest value to the right edge. */
export function barChart(title: string, unit: string, bars: readonly Bar[]): string {
  const most = Math.max(...bars.map(({ value, max }) => max ?? value));
  const x = (value: number) => (LABEL + (value / most) * WIDTH).toFixed(1);
  const rows = bars.map(({ label, value, min, max, strong }, index) => {
    const y = TOP + index * ROW;
    const middle = y + ROW / 2 - 3;
    const spread =
      min === undefined || max === undefined || min === max
        ? ''
        : `<line x1="${x(min)}" x2="${x(max)}" y1="${middle}" y2="${middle}" stroke="#222"/>`;
    return [
      `<text x="${LABEL - 8}" y="${middle + 4}" text-anchor="end">${escape(label)}</text>`,
      `<rect x="${LABEL}" y="${y}" width="${(Number(x(value)) - LABEL).toFixed(1)}" height="${ROW - 6}" fill="${strong ? '#2b6cb0' : '#a0aec0'}"/>`,
      spread,
      `<text x="${Number(x(max ?? value)) + 6}" y="${middle + 4}">${figure(value)}</text>`,
    ].join('');
  });
  const height = TOP + bars.length * ROW + 10;
  const full = LABEL + WIDTH + 90;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${full} ${height}" width="${full}" height="${height}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="8" y="18" font-size="14" font-weight="bold">${escape(title)}</text>
<text x="8" y="35" fill="#555">${escape(unit)}</text>
${rows.join('\n')}
</svg>
`;
}
