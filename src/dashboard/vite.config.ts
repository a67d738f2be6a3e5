import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

/** The folder of the built assets, once the configuration is known. */
let folder = '';

/** Compresses each asset once, at build time: the server sends the files as they are. */
const packed: Plugin = {
  name: 'packed',
  configResolved({ root, build }) {
    folder = resolve(root, build.outDir, 'assets');
  },
  closeBundle() {
    for (const name of readdirSync(folder).filter((one) => /\.(js|css|svg)$/.test(one))) {
      const plain = readFileSync(join(folder, name));
      if (plain.length > 1_000) writeFileSync(join(folder, `${name}.gz`), gzipSync(plain, { level: 9 }));
    }
  },
};

export default defineConfig({
  root: import.meta.dirname,
  publicDir: false,
  oxc: { jsx: { runtime: 'automatic', importSource: 'react' } },
  plugins: [packed],
  build: {
    outDir: '../../dist/dashboard',
    emptyOutDir: true,
    target: 'es2022',
    // Inlined assets would need a Content-Security-Policy that allows them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      // The libraries mark most files "use client", which is meaningless here: everything runs in the browser.
      onwarn: (warning, warn) => warning.code !== 'MODULE_LEVEL_DIRECTIVE' && warn(warning),
    },
  },
});
