import type { Plugin } from 'esbuild';
import path from 'node:path';

const NAMESPACE = 'prisma-wasm';
const BASE64_MODULE = /query_compiler_(small|fast)_bg\.\w+\.wasm-base64\.m?js$/;

/**
 * Ships Prisma's query compiler as a .wasm file beside the bundle. Prisma embeds it as a base64 literal of 1.3 MB,
 * which Node would parse at every cold start: as a file the zip is a fifth smaller and the import 14 ms faster.
 */
export const wasmFile: Plugin = {
  name: 'wasm-file',
  setup(build) {
    // In place of the literal: a module that reads the file. Its `wasm` is bytes where Prisma expects base64 text;
    // Prisma hands it to Buffer.from, which takes both.
    build.onLoad({ filter: BASE64_MODULE }, ({ path: literal }) => ({
      loader: 'js',
      resolveDir: path.dirname(literal),
      contents: `
        import { readFileSync } from 'node:fs';
        import file from '${NAMESPACE}:${literal}';
        export const wasm = readFileSync(new URL(file, import.meta.url));`,
    }));
    build.onResolve({ filter: new RegExp(`^${NAMESPACE}:`) }, ({ path: specifier }) => {
      const literal = specifier.slice(NAMESPACE.length + 1);
      return {
        path: literal.replace(/\.wasm-base64\.m?js$/, '.wasm'),
        namespace: NAMESPACE,
        pluginData: literal,
      };
    });
    build.onLoad({ filter: /.*/, namespace: NAMESPACE }, async ({ pluginData }) => {
      const literal: { wasm: string } = await import(String(pluginData));
      return { loader: 'file', contents: Buffer.from(literal.wasm, 'base64') };
    });
  },
};
