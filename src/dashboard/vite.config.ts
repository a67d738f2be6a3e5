import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

/** Packed once, here: the server sends what it finds. */
let folder = '';
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
    // What is inlined would need a policy that allows it.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rolldownOptions: {
      // The libraries say of most files that they are for browsers, which is where all of this goes.
      onwarn: (warning, warn) => warning.code !== 'MODULE_LEVEL_DIRECTIVE' && warn(warning),
    },
  },
});
