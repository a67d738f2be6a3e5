import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

const outDir = join(import.meta.dirname, '../../dist/dashboard');

/** Packed once, here: the server sends what it finds. */
const packed: Plugin = {
  name: 'packed',
  closeBundle() {
    const folder = join(outDir, 'assets');
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
    outDir,
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
