import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Where `npm start` and the Dockerfile build the pages. The relative path is the same from `src` and from its compiled form. */
export const builtPages = fileURLToPath(new URL('../../dist/dashboard/', import.meta.url));

/** The dashboard as it was built. */
export interface DashboardFiles {
  /** The document of every page; `__NONCE__` marks where the nonce of the response goes. */
  index: string;
  /** The files that it loads, by path. */
  assets: Map<string, { type: string; plain: Buffer; gzip: Buffer | null }>;
}

const types: Record<string, string> = {
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
};

/** Reads the built files, some hundred kilobytes, to keep in memory. @returns null if nothing was built */
export async function readDashboard(): Promise<DashboardFiles | null> {
  try {
    const index = await readFile(join(builtPages, 'index.html'), 'utf8');
    const names = await readdir(join(builtPages, 'assets'));
    const assets = names.filter((name) => typeOf(name) !== undefined);
    const read = async (name: string) => {
      const file = join(builtPages, 'assets', name);
      const gzip = names.includes(`${name}.gz`) ? await readFile(`${file}.gz`) : null;
      return [`/assets/${name}`, { type: typeOf(name) ?? '', plain: await readFile(file), gzip }] as const;
    };
    return { index, assets: new Map(await Promise.all(assets.map(read))) };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
}

const typeOf = (name: string) => types[name.slice(name.lastIndexOf('.') + 1)];
