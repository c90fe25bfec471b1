import type * as z from 'zod';
import { variableOf } from '../../functions/shared/config.ts';

/** The Markdown table of a function's settings: variable, default and meaning, from what the code reads. */
export function settingsTable(shape: Record<string, z.ZodType>): string {
  const rows = Object.entries(shape).map(([setting, type]) => {
    const description = type.description ?? '';
    return `| \`${variableOf(setting)}\` | ${defaultOf(type)} | ${description} |`;
  });
  return ['| variable | default | meaning |', '| --- | --- | --- |', ...rows].join('\n');
}

function defaultOf(type: z.ZodType): string {
  if (!type.safeParse(undefined).success) return 'required';
  // The default is given as text, as the environment would; a setting that may be absent has none.
  const {
    innerType,
    defaultValue,
    in: input,
  } = type.def as unknown as {
    innerType?: z.ZodType;
    in?: z.ZodType;
    defaultValue?: unknown;
  };
  if (defaultValue !== undefined) return `\`${String(defaultValue)}\``;
  const inner = input ?? (type.def.type === 'optional' ? undefined : innerType);
  return inner ? defaultOf(inner) : '–';
}
